// How activities are called: timeouts and retries, with a reason for each number.

import { proxyActivities, type ActivityOptions } from '@temporalio/workflow';
import type { Activities } from '../activities';
import type { OnCrash, RunTimeouts } from './contract';
import type { StepActivity } from './policy/steps';

type Claim = Pick<Activities, 'claimMessage'>;
type Close = Pick<Activities, 'closeRun'>;
type Look = Pick<Activities, 'findEnding'>;
type Model = Pick<Activities, 'callModel'>;
type Hold = Pick<Activities, 'openHeldActions'>;
type Steps = Pick<Activities, StepActivity>;

/**
 * Claiming is one short transaction. 10 s is longer than Postgres's own timeouts, so that an attempt that is given up has
 * been given up by Postgres too. Retried until Postgres answers: it acts on nothing, and the claim decides by itself.
 */
const UNTIL_POSTGRES_ANSWERS: ActivityOptions = {
  startToCloseTimeout: '10s',
  retry: { initialInterval: '1s', backoffCoefficient: 2, maximumInterval: '10s' },
};

export const { claimMessage } = proxyActivities<Claim>({ ...UNTIL_POSTGRES_ANSWERS, summary: 'claim' });

/** `closeRun` is outside the run's time limit: a run always gets its ending. */
export const { closeRun } = proxyActivities<Close>({ ...UNTIL_POSTGRES_ANSWERS, summary: 'close' });

export const { findEnding } = proxyActivities<Look>({ ...UNTIL_POSTGRES_ANSWERS, summary: 'look again' });

/**
 * A cancelled run goes on to its ending at once, whatever its attempt is doing: the fence decides which of the two was
 * first. Said here because the SDK's documentation names another default than the one it has.
 */
const cancellationType = 'TRY_CANCEL';

/**
 * The model call within what is left of the time limit. Attempts are bounded by that limit, requests by Postgres, so no
 * number stands here. 2 s, then 8 s: the waits when a provider names none, and when an attempt died with its worker.
 */
export function modelCall(timeouts: RunTimeouts, leftMs: number): Model {
  return proxyActivities<Model>({
    startToCloseTimeout: timeouts.modelMs,
    scheduleToCloseTimeout: leftMs,
    cancellationType,
    heartbeatTimeout: timeouts.heartbeatMs,
    retry: { initialInterval: '2s', backoffCoefficient: 4, maximumInterval: '8s' },
    summary: 'model call',
  });
}

/**
 * Opening the holds, within what is left of the time limit. Retried under both policies until Postgres answers: it is keyed,
 * and changes nothing in the room.
 */
export function holding(timeouts: RunTimeouts, leftMs: number): Hold {
  return proxyActivities<Hold>({
    startToCloseTimeout: timeouts.stepMs,
    scheduleToCloseTimeout: leftMs,
    cancellationType,
    retry: { initialInterval: '1s', backoffCoefficient: 2, maximumInterval: '5s' },
    summary: 'hold',
  });
}

/**
 * One acting step within what is left of the time limit.
 *
 * `stop`: one attempt, ever. `resume`: retried under its step key, which is what keeps it from acting twice; every second
 * at first, because what it waits for is a worker or Postgres coming back.
 */
export function actingStep(onCrash: OnCrash, timeouts: RunTimeouts, leftMs: number, summary: string): Steps {
  return proxyActivities<Steps>({
    startToCloseTimeout: timeouts.stepMs,
    scheduleToCloseTimeout: leftMs,
    cancellationType,
    retry:
      onCrash === 'stop'
        ? { maximumAttempts: 1 }
        : { initialInterval: '1s', backoffCoefficient: 2, maximumInterval: '5s' },
    summary,
  });
}
