// One wake carried out: claim, call the model, decide, act step by step, close. Decides only; every effect is an activity.
//
//   claimMessage ─▶ callModel ─▶ postReply ─▶ writeMemory ─▶ updateTask… ─▶ sendTask…    the last one closes the run
//        │              │ └─ something needs a yes ─▶ openHeldActions ─▶ parked ⇄ the step whose yes came
//        │              └── no reply, cancelled, timed out, declined, a step that failed ──▶ closeRun
//        └── refused, or closed already ──▶ ends having done nothing

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
import { actingStep, claimMessage, closeRun, findEnding, holding, modelCall } from './proxies';
import { RUN_ENDING, RUN_STATE } from './search-attributes';

const decisionSignal = defineSignal<[DecisionNotice]>(DECISION_SIGNAL);
const recheckSignal = defineSignal(RECHECK_SIGNAL);
const stateQuery = defineQuery<RunProgress>(STATE_QUERY);
const runEnding = defineSearchAttributeKey(RUN_ENDING, 'KEYWORD');
const runState = defineSearchAttributeKey(RUN_STATE, 'KEYWORD');

const OPEN = [{ key: runState, value: 'open' }];
const PARKED = [{ key: runState, value: 'parked' }];

type Granted = Extract<ClaimResult, { status: 'granted' }>;

/** Carries out one wake. Started once per (agent, message); any other execution is refused by the claim or the fence. */
export async function agentRun(input: AgentRunInput): Promise<AgentRunResult> {
  let progress: RunProgress = { run: null, at: 'claiming' };
  const enter = (at: string, run: string | null = progress.run): void => {
    progress = { run, at };
    setCurrentDetails(run === null ? at : `${at} · ${run}`);
  };
  setHandler(stateQuery, () => progress);
  const decisions = createDecisions();
  setHandler(decisionSignal, (notice) => decisions.hear(notice));
  enter('claiming');

  // Outside cancellation: a run cancelled before its claim claims, and then closes as cancelled.
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
 * Looks whenever it is told to whether this run has ended elsewhere, and then cancels `work`: whatever is under way ends.
 *
 * It only looks: an open run of this execution goes on. Signals that come while it looks are answered by one more look, so
 * that any number of them costs a history no more than themselves.
 */
function cancelWhenClosed(run: string, work: CancellationScope): void {
  let looking = false;
  let lookAgain = false;
  setHandler(
    recheckSignal,
    async () => {
      lookAgain = true;
      if (looking) return;
      looking = true;
      while (lookAgain) {
        lookAgain = false;
        const look = CancellationScope.nonCancellable(() => findEnding({ run }));
        const ending = await look.catch((error: unknown) => (isFenced(error, 'not_mine') ? 'fenced' : null));
        if (ending !== null) work.cancel();
      }
      looking = false;
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
 * Returns the run's ending if a step closed it, undefined when there was nothing (more) to do.
 *
 * `onStep` is told which step is under way, and undefined when none is.
 */
async function executeSteps(work: Work, onStep: (step: string | undefined) => void): Promise<Ending | undefined> {
  const { claim, call, time, decisions, enter } = work;
  const { run } = claim;
  const steps = planSteps(call.declared);
  const done: StepRecord[] = [];
  if (call.holds === true) enter('opening holds');
  const opened = call.holds === true ? await holding(claim.t, time.leftMs()).openHeldActions({ run }) : [];
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
        const activities = actingStep(claim.onCrash, claim.t, time.leftMs(), key);
        const outcome = await activities[STEP_RULES[move.step.kind].activity]({ run, step: key });
        if (outcome.ending !== undefined) return outcome.ending;
        // It met no yes, whatever the workflow was told, and wrote nothing.
        if (isUnapproved(outcome.state)) decisions.correct(key, outcome.state);
        else done.push({ key, state: outcome.state, code: null });
      }
    }
  }
}

function isUnapproved(state: StepResult['state']): state is 'held' | 'declined' | 'expired' {
  return state === 'held' || state === 'declined' || state === 'expired';
}

/** Waits until somebody decides, and holds nothing while it does: no timer, no activity, no worker. */
async function park({ time, enter }: Work, isOver: () => boolean): Promise<void> {
  enter('parked: waiting for a decision');
  upsertSearchAttributes(PARKED);
  time.park();
  try {
    await condition(isOver);
  } finally {
    time.goOn();
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
  // A bug in a decision: nothing more is done, and the run still gets its ending.
  return { kind: 'failed', code: 'internal', ...at };
}

function isFenced(error: unknown, why: string): boolean {
  const cause = error instanceof ActivityFailure ? error.cause : undefined;
  return cause instanceof ApplicationFailure && cause.type === FAILURE.fenced && cause.message.endsWith(why);
}
