// The ending of a run, computed from its records and the closer's reason. Pure.
//
//   a closer's `lost`, `cancelled`, `timed_out` win over everything
//   no stored reply      → by the last model request: refused · failed · busy, else the closer's failure
//   the reply not posted → not_allowed (rights, or a re-check) · declined · expired · failed (nothing was done)
//   the reply posted     → replied · partial (a later step failed or was not reached)
//   the reply was null   → silent · partial · failed, in the same way

import { MODEL_REQUESTS_LIMIT, type Ending, type Rights, type StepState } from '../contract';
import type { HoldRecord, StepRecord } from './records';
import type { Step } from './steps';

/** Why a run is closed. `ended`: no step is left. */
export type CloseReason =
  | { readonly kind: 'ended' }
  | { readonly kind: 'lost' }
  | { readonly kind: 'cancelled' }
  | { readonly kind: 'timed_out' }
  /** `step`: the key of the step whose attempt failed, if one did. */
  | { readonly kind: 'failed'; readonly code: string; readonly step?: string };

export type { StepRecord } from './records';

export interface RequestRecord {
  readonly number: number;
  readonly outcome: string;
  readonly code: string | null;
}

/** The records of a run at the moment of closing. */
export interface RunRecords {
  /** Steps of the stored reply, or null when no reply was stored. */
  readonly steps: readonly Step[] | null;
  /** Rights stored with the reply. */
  readonly rights: Rights | null;
  readonly done: readonly StepRecord[];
  /** The run's held actions, with their decisions so far. */
  readonly holds: readonly HoldRecord[];
  readonly requests: readonly RequestRecord[];
  /** The limit of model requests of this run. */
  readonly requestsLimit?: number;
}

export interface ComputedEnding {
  readonly ending: Ending;
  readonly code: string | null;
  /** The states of declared steps that have no row yet. */
  readonly missing: readonly (StepRecord & { readonly step: Step })[];
}

/** The ending of a run, and a state for every declared step without a row. */
export function computeEnding(records: RunRecords, reason: CloseReason): ComputedEnding {
  const missing = missingSteps(records, reason);
  const states = [...records.done, ...missing];
  const { ending, code } = overriding(reason) ?? fromRequests(records, reason) ?? fromSteps(states, reason);
  return { ending, code, missing };
}

/** The code of a step that was superseded because the run ended before its approval or its execution. */
const RUN_ENDED = 'run_ended';

type Verdict = { ending: Ending; code: string | null };

function overriding(reason: CloseReason): Verdict | null {
  switch (reason.kind) {
    case 'lost':
    case 'cancelled':
    case 'timed_out':
      return { ending: reason.kind, code: null };
    case 'ended':
    case 'failed':
      return null;
  }
}

function fromRequests(records: RunRecords, reason: CloseReason): Verdict | null {
  if (records.steps !== null) return null;
  const last = records.requests.reduce<RequestRecord | null>(
    (newest, request) => (newest === null || request.number > newest.number ? request : newest),
    null,
  );
  const failure: Verdict = { ending: 'failed', code: reason.kind === 'failed' ? reason.code : 'no_reply' };
  if (last === null) return failure;
  const isLastAllowed = last.number >= (records.requestsLimit ?? MODEL_REQUESTS_LIMIT);
  switch (last.outcome) {
    case 'refused':
      return { ending: 'refused', code: last.code };
    case 'failed':
      return { ending: 'failed', code: last.code };
    case 'busy':
      return { ending: 'busy', code: last.code };
    case 'retry':
      return isLastAllowed ? { ending: 'busy', code: last.code } : failure;
    case 'unknown':
    case 'in_flight':
      return isLastAllowed ? { ending: 'failed', code: 'unknown' } : failure;
    case 'aborted':
      return isLastAllowed ? { ending: 'failed', code: 'interrupted' } : failure;
    default:
      return failure;
  }
}

function fromSteps(states: readonly StepRecord[], reason: CloseReason): Verdict {
  const code = reason.kind === 'failed' ? reason.code : null;
  const reply = states.find((state) => state.key === 'reply');
  switch (reply?.state) {
    case 'declined':
    case 'expired':
      return { ending: reply.state, code: null };
    case 'superseded':
      // A failure ended the run before the reply was approved.
      if (code !== null && reply.code === RUN_ENDED) return { ending: 'failed', code };
      return { ending: 'not_allowed', code: reply.code };
    case 'refused':
      return { ending: 'not_allowed', code: reply.code };
    case 'failed':
    case 'not_reached':
      return { ending: 'failed', code: code ?? reply.code };
    case 'done':
    case undefined:
      break;
  }
  const short = states.find(
    ({ state, code: why }) =>
      state === 'failed' || state === 'not_reached' || (state === 'superseded' && why === RUN_ENDED),
  );
  if (!short) return { ending: reply ? 'replied' : 'silent', code: null };
  const didSomething = states.some((state) => state.state === 'done');
  return { ending: didSomething ? 'partial' : 'failed', code: code ?? short.code };
}

function missingSteps(records: RunRecords, reason: CloseReason): ComputedEnding['missing'] {
  const { steps, rights } = records;
  if (steps === null || rights === null) return [];
  const ended = new Map(records.done.map((record) => [record.key, record]));
  const holds = new Map(records.holds.map((hold) => [hold.key, hold]));
  const reply = ended.get('reply');
  // If the reply was not posted, every later step is superseded.
  const replyRefused = steps.some((step) => step.kind === 'reply') && rights.reply !== 'go' && reply === undefined;
  const replyStopped = replyRefused || (reply !== undefined && reply.state !== 'done');
  return steps
    .filter((step) => !ended.has(step.key))
    .map((step) => ({
      step,
      key: step.key,
      ...(step.kind !== 'reply' && replyStopped
        ? { state: 'superseded' as const, code: 'reply_not_posted' }
        : missingState(step, rights, holds.get(step.key), reason)),
    }));
}

type MissingState = { state: StepState; code: string | null };

function missingState(step: Step, rights: Rights, hold: HoldRecord | undefined, reason: CloseReason): MissingState {
  const failed: MissingState | null =
    reason.kind === 'failed' && reason.step === step.key ? { state: 'failed', code: reason.code } : null;
  switch (rights[step.kind]) {
    case 'go':
      return failed ?? { state: 'not_reached', code: null };
    case 'refuse':
      return { state: 'refused', code: 'not_allowed' };
    case 'hold':
      break;
  }
  switch (hold?.state) {
    case undefined:
      // The run never opened its holds: its workflow is older than held actions.
      return reason.kind === 'ended'
        ? { state: 'refused', code: 'needs_approval' }
        : { state: 'not_reached', code: null };
    case 'declined':
    case 'expired':
      return { state: hold.state, code: null };
    case 'held':
    case 'approved':
    case 'superseded':
    case 'executed':
    case 'failed':
      return failed ?? { state: 'superseded', code: RUN_ENDED };
  }
}
