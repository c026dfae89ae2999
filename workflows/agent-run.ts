// One wake carried out: claim, call the model, decide, act step by step, close. Decides only; every effect is an activity.
//
//   claimMessage ─▶ callModel ─▶ postReply ─▶ writeMemory ─▶ updateTask… ─▶ sendTask…    the last one closes the run
//        │              └── no reply, cancelled, timed out, a step that failed ──▶ closeRun
//        └── refused, or closed already ──▶ ends having done nothing

import { defineSearchAttributeKey, HandlerUnfinishedPolicy } from '@temporalio/common';
import {
  ActivityFailure,
  ApplicationFailure,
  CancellationScope,
  defineQuery,
  defineSignal,
  isCancellation,
  setCurrentDetails,
  setHandler,
  TimeoutFailure,
  upsertSearchAttributes,
} from '@temporalio/workflow';
import {
  FAILURE,
  type AgentRunInput,
  type AgentRunResult,
  type ClaimResult,
  type Ending,
  type ModelCallResult,
} from './contract';
import { RECHECK_SIGNAL, STATE_QUERY, type RunProgress } from './messages';
import type { CloseReason } from './policy/ending';
import { planSteps, stepsToTake, type Step } from './policy/steps';
import { actingStep, claimMessage, closeRun, findEnding, modelCall } from './proxies';
import { RUN_ENDING, RUN_STATE } from './search-attributes';

const recheckSignal = defineSignal(RECHECK_SIGNAL);
const stateQuery = defineQuery<RunProgress>(STATE_QUERY);
const runEnding = defineSearchAttributeKey(RUN_ENDING, 'KEYWORD');
const runState = defineSearchAttributeKey(RUN_STATE, 'KEYWORD');

type Granted = Extract<ClaimResult, { status: 'granted' }>;

/** Carries out one wake. Started once per (agent, message); any other execution is refused by the claim or the fence. */
export async function agentRun(input: AgentRunInput): Promise<AgentRunResult> {
  let progress: RunProgress = { run: null, at: 'claiming' };
  const enter = (at: string, run: string | null = progress.run): void => {
    progress = { run, at };
    setCurrentDetails(run === null ? at : `${at} · ${run}`);
  };
  setHandler(stateQuery, () => progress);
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
      return carryOut(claim, enter);
  }
}

async function carryOut(claim: Granted, enter: (at: string) => void): Promise<AgentRunResult> {
  // Counted from here by the workflow's clock, which replays: the activities' own time-outs carry the limit, no timer.
  const deadline = Date.now() + claim.t.limitMs;
  const leftMs = (): number => Math.max(1, deadline - Date.now());

  let current: string | undefined;
  let reason: CloseReason;
  const work = new CancellationScope();
  // It only looks: an open run of this execution goes on. Signals that come while it looks are answered by one more look,
  // so that any number of them costs a history no more than themselves.
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
        const look = CancellationScope.nonCancellable(() => findEnding({ run: claim.run }));
        const ending = await look.catch((error: unknown) => (isFenced(error, 'not_mine') ? 'fenced' : null));
        if (ending !== null) work.cancel();
      }
      looking = false;
    },
    { unfinishedPolicy: HandlerUnfinishedPolicy.ABANDON },
  );
  try {
    const ending = await work.run(async () => {
      enter('calling the model');
      const call = await modelCall(claim.t, leftMs()).callModel({ run: claim.run });
      switch (call.status) {
        case 'closed':
          return call.ending;
        case 'settled':
          return undefined;
        case 'reply':
          return takeSteps(claim, call, leftMs, (step) => {
            current = step.key;
            enter(step.key);
          });
      }
    });
    if (ending !== undefined) return ended(claim.run, ending);
    reason = { kind: 'ended' };
  } catch (error) {
    if (isFenced(error, 'not_mine')) return fenced(claim.run, 'not_mine');
    reason = reasonOf(error, current, Date.now() >= deadline);
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

/** Returns the run's ending if a step closed it, undefined when there was nothing (more) to do. */
async function takeSteps(
  claim: Granted,
  call: Extract<ModelCallResult, { status: 'reply' }>,
  leftMs: () => number,
  onStep: (step: Step) => void,
): Promise<Ending | undefined> {
  for (const step of stepsToTake(planSteps(call.declared), call.rights)) {
    onStep(step);
    const activities = actingStep(claim.onCrash, claim.t, leftMs(), step.key);
    const input = { run: claim.run, step: step.key };
    const outcome = await callStep(activities, step, input);
    if (outcome.ending !== undefined) return outcome.ending;
  }
  return undefined;
}

function callStep(activities: ReturnType<typeof actingStep>, step: Step, input: { run: string; step: string }) {
  switch (step.kind) {
    case 'reply':
      return activities.postReply(input);
    case 'memory':
      return activities.writeMemory(input);
    case 'task_update':
      return activities.updateTask(input);
    case 'task_send':
      return activities.sendTask(input);
  }
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
