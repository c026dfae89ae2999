// How activities are called: timeouts and retries, with a reason for each number.

import { proxyActivities, type ActivityOptions } from '@temporalio/workflow';
import type { Activities } from '../activities';
import type { OnCrash, RunTimeouts } from './contract';
import type { StepActivity } from './policy/steps';

type Claim = Pick<Activities, 'claimMessage'>;
type Close = Pick<Activities, 'closeRun'>;
type Find = Pick<Activities, 'findEnding'>;
type Model = Pick<Activities, 'callModel'>;
type Hold = Pick<Activities, 'openHeldActions'>;
type Steps = Pick<Activities, StepActivity>;

/**
 * Each is one short transaction. 10 s is longer than Postgres's own timeouts, so Postgres gives up before the attempt does.
 * Retried until Postgres answers: both are idempotent and change nothing in the room.
 */
const UNTIL_POSTGRES_ANSWERS: ActivityOptions = {
  startToCloseTimeout: '10s',
  retry: { initialInterval: '1s', backoffCoefficient: 2, maximumInterval: '10s' },
};

export const { claimMessage } = proxyActivities<Claim>({ ...UNTIL_POSTGRES_ANSWERS, summary: 'claim' });

/** `closeRun` does not count against the run's time limit: every run gets its ending. */
export const { closeRun } = proxyActivities<Close>({ ...UNTIL_POSTGRES_ANSWERS, summary: 'close' });

export const { findEnding } = proxyActivities<Find>({ ...UNTIL_POSTGRES_ANSWERS, summary: 'look again' });

/**
 * A cancelled run closes at once and does not wait for its attempt: the fence decides which of the two was first.
 * Set explicitly because the SDK's documentation names a default that differs from its code.
 */
const cancellationType = 'TRY_CANCEL';

/**
 * The model call, within the rest of the time limit. That limit bounds the attempts and Postgres bounds the requests, so
 * there is no maximum here. 2 s, then 8 s: the waits if a provider names none, or if an attempt died with its worker.
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
 * Opening the holds, within the rest of the time limit. Retried under both crash policies until Postgres answers: it is
 * idempotent and changes nothing in the room.
 */
export function holdActions(timeouts: RunTimeouts, leftMs: number): Hold {
  return proxyActivities<Hold>({
    startToCloseTimeout: timeouts.stepMs,
    scheduleToCloseTimeout: leftMs,
    cancellationType,
    retry: { initialInterval: '1s', backoffCoefficient: 2, maximumInterval: '5s' },
    summary: 'hold',
  });
}

/**
 * The activities of steps, within the rest of the time limit.
 *
 * `stop`: one attempt. `resume`: retried under the step key, which prevents a second effect. The first retries come every
 * second, because a worker or Postgres is usually back soon.
 */
export function stepActivities(onCrash: OnCrash, timeouts: RunTimeouts, leftMs: number, summary: string): Steps {
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
