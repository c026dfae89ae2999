// The workflow of one wake: claim, call the model, execute the declared steps, close. Only decides; every effect is an activity.
//
//   claimMessage ─▶ callModel ─▶ postReply ─▶ writeMemory ─▶ updateTask… ─▶ sendTask…    the last one closes the run
//        │              │ └─ a step needs approval ─▶ openHeldActions ─▶ parked ⇄ each approved step
//        │              └── no reply, cancelled, timed out, declined, a step that failed ──▶ closeRun
//        └── refused, or closed already ──▶ ends without an effect

import { defineSearchAttributeKey, HandlerUnfinishedPolicy } from '@temporalio/common';
import {
  ActivityFailure,
  ApplicationFailure,
  CancellationScope,
  condition,
  defineQuery,
  defineSignal,
  isCancellation,
  setCurrentDetails,
  setHandler,
  TimeoutFailure,
  upsertSearchAttributes,
} from '@temporalio/workflow';
import { startActiveTime, type ActiveTime } from './active-time';
import {
  FAILURE,
  type AgentRunInput,
  type AgentRunResult,
  type ClaimResult,
  type Ending,
  type ModelCallResult,
  type StepResult,
} from './contract';
import { createDecisions, type Decisions } from './decisions';
import { DECISION_SIGNAL, RECHECK_SIGNAL, STATE_QUERY, type DecisionNotice, type RunProgress } from './messages';
import type { CloseReason, StepRecord } from './policy/ending';
import { nextMove, type Move } from './policy/next-move';
import { planSteps, STEP_RULES } from './policy/steps';
import { claimMessage, closeRun, findEnding, holdActions, modelCall, stepActivities } from './proxies';
import { RUN_ENDING, RUN_STATE } from './search-attributes';

const decisionSignal = defineSignal<[DecisionNotice]>(DECISION_SIGNAL);
const recheckSignal = defineSignal(RECHECK_SIGNAL);
const stateQuery = defineQuery<RunProgress>(STATE_QUERY);
const runEnding = defineSearchAttributeKey(RUN_ENDING, 'KEYWORD');
const runState = defineSearchAttributeKey(RUN_STATE, 'KEYWORD');

const OPEN = [{ key: runState, value: 'open' }];
const PARKED = [{ key: runState, value: 'parked' }];

type Granted = Extract<ClaimResult, { status: 'granted' }>;

/** Runs one wake. Started once per (agent, message); the claim or the fence refuses any other execution. */
export async function agentRun(input: AgentRunInput): Promise<AgentRunResult> {
  let progress: RunProgress = { run: null, at: 'claiming' };
  const enter = (at: string, run: string | null = progress.run): void => {
    progress = { run, at };
    setCurrentDetails(run === null ? at : `${at} · ${run}`);
  };
  setHandler(stateQuery, () => progress);
  const decisions = createDecisions();
  setHandler(decisionSignal, (notice) => decisions.record(notice));
  enter('claiming');

  // Not cancellable: a run that is cancelled before its claim claims, then closes as cancelled.
  const claim = await CancellationScope.nonCancellable(() => claimMessage(input));
  switch (claim.status) {
    case 'refused':
      upsertSearchAttributes([{ key: runState, value: 'closed' }]);
      return claim.run === undefined ? { result: 'refused', why: claim.why } : fenced(claim.run, claim.why);
    case 'closed':
      return ended(claim.run, claim.ending);
    case 'granted':
      enter('claimed', claim.run);
  }
  const time = startActiveTime(claim.t.limitMs);
  cancelWhenClosed(claim.run, CancellationScope.current());
  let current: string | undefined;
  let reason: CloseReason;
  try {
    enter('calling the model');
    const call = await modelCall(claim.t, time.leftMs()).callModel({ run: claim.run });
    if (call.status === 'closed') return ended(claim.run, call.ending);
    if (call.status === 'reply') {
      const ending = await executeSteps({ claim, call, time, decisions, enter }, (step) => {
        current = step;
      });
      if (ending !== undefined) return ended(claim.run, ending);
    }
    reason = { kind: 'ended' };
  } catch (error) {
    if (isFenced(error, 'not_mine')) return fenced(claim.run, 'not_mine');
    reason = reasonOf(error, current, time.isOver());
  }
  enter('closing');
  try {
    const close = { run: claim.run, reason };
    return ended(claim.run, await CancellationScope.nonCancellable(() => closeRun(close)));
  } catch (error) {
    if (isFenced(error, 'not_mine')) return fenced(claim.run, 'not_mine');
    throw error;
  }
}

/**
 * On each recheck signal, reads whether the run is closed or owned by another execution, and cancels `work` if so.
 *
 * Signals that arrive during a read cause one more read in total, so a burst of signals adds little to the history.
 */
function cancelWhenClosed(run: string, work: CancellationScope): void {
  let reading = false;
  let readAgain = false;
  setHandler(
    recheckSignal,
    async () => {
      readAgain = true;
      if (reading) return;
      reading = true;
      while (readAgain) {
        readAgain = false;
        const read = CancellationScope.nonCancellable(() => findEnding({ run }));
        const ending = await read.catch((error: unknown) => (isFenced(error, 'not_mine') ? 'fenced' : null));
        if (ending !== null) work.cancel();
      }
      reading = false;
    },
    { unfinishedPolicy: HandlerUnfinishedPolicy.ABANDON },
  );
}

interface Work {
  readonly claim: Granted;
  readonly call: Extract<ModelCallResult, { status: 'reply' }>;
  readonly time: ActiveTime;
  readonly decisions: Decisions;
  readonly enter: (at: string) => void;
}

/**
 * Executes the steps of the reply. Returns the run's ending if a step closed the run, else undefined.
 *
 * Calls `onStep` with the key of each step that starts, and with undefined when the run parks.
 */
async function executeSteps(work: Work, onStep: (step: string | undefined) => void): Promise<Ending | undefined> {
  const { claim, call, time, decisions, enter } = work;
  const { run } = claim;
  const steps = planSteps(call.declared);
  const done: StepRecord[] = [];
  if (call.holds === true) enter('opening holds');
  const opened = call.holds === true ? await holdActions(claim.t, time.leftMs()).openHeldActions({ run }) : [];
  const next = (): Move => nextMove(steps, call.rights, done, decisions.applyTo(opened));
  for (;;) {
    const move = next();
    switch (move.kind) {
      case 'close':
        return undefined;
      case 'wait':
        onStep(undefined);
        await park(work, () => next().kind !== 'wait');
        break;
      case 'act': {
        const { key } = move.step;
        onStep(key);
        enter(key);
        const activities = stepActivities(claim.onCrash, claim.t, time.leftMs(), key);
        const outcome = await activities[STEP_RULES[move.step.kind].activity]({ run, step: key });
        if (outcome.ending !== undefined) return outcome.ending;
        // The ledger holds no approval, whatever the signal was, and the step wrote nothing.
        if (isUnapproved(outcome.state)) decisions.correct(key, outcome.state);
        else done.push({ key, state: outcome.state, code: null });
      }
    }
  }
}

function isUnapproved(state: StepResult['state']): state is 'held' | 'declined' | 'expired' {
  return state === 'held' || state === 'declined' || state === 'expired';
}

/** Waits for a decision. A parked run uses no timer, no activity and no worker. */
async function park({ time, enter }: Work, isOver: () => boolean): Promise<void> {
  enter('parked: waiting for a decision');
  upsertSearchAttributes(PARKED);
  time.park();
  try {
    await condition(isOver);
  } finally {
    time.resume();
  }
  upsertSearchAttributes(OPEN);
}

function ended(run: string, ending: Ending): AgentRunResult {
  upsertSearchAttributes([
    { key: runEnding, value: ending },
    { key: runState, value: 'closed' },
  ]);
  setCurrentDetails(`${ending} · ${run}`);
  return { result: 'ended', run, ending };
}

function fenced(run: string, why: string): AgentRunResult {
  upsertSearchAttributes([{ key: runState, value: 'closed' }]);
  setCurrentDetails(`fenced: ${why} · ${run}`);
  return { result: 'fenced', why, run };
}

function reasonOf(error: unknown, step: string | undefined, pastDeadline: boolean): CloseReason {
  if (isCancellation(error)) return pastDeadline ? { kind: 'timed_out' } : { kind: 'cancelled' };
  const at = step === undefined ? {} : { step };
  if (error instanceof ActivityFailure) {
    if (pastDeadline || error.retryState === 'TIMEOUT') return { kind: 'timed_out' };
    const { cause } = error;
    if (cause instanceof TimeoutFailure) {
      if (cause.timeoutType === 'SCHEDULE_TO_CLOSE') return { kind: 'timed_out' };
      return { kind: 'failed', code: 'no_answer', ...at };
    }
    if (cause instanceof ApplicationFailure) {
      return { kind: 'failed', code: cause.type === FAILURE.transient ? 'outcome_unknown' : 'internal', ...at };
    }
  }
  // A bug in a decision: no further step is executed, and the run still gets its ending.
  return { kind: 'failed', code: 'internal', ...at };
}

function isFenced(error: unknown, why: string): boolean {
  const cause = error instanceof ActivityFailure ? error.cause : undefined;
  return cause instanceof ApplicationFailure && cause.type === FAILURE.fenced && cause.message.endsWith(why);
}
