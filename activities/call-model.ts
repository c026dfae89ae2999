// The model call: claim a request in Postgres, send it, record its end. One attempt is at most one HTTP request.

import { ApplicationFailure, CancelledFailure, Context } from '@temporalio/activity';
import { SecretBoxError } from '../workflows/policy/secret-box';
import { Transient } from '../prisma/store/db/errors';
import {
  claimRequest,
  endRequest,
  type ModelTarget,
  type RequestResult,
  type RequestToSend,
  type StoredReply,
} from '../prisma/store/runs/model-requests';
import { modelKeyBinding } from '../prisma/store/model-keys/model-keys';
import { FAILURE, type ModelCallResult } from '../workflows/contract';
import { declaredKinds, planSteps, stepsToHold } from '../workflows/policy/steps';
import { renderContext } from './context/render';
import { currentExecution, type ActivityDeps } from './deps';
import { writeRequest, type ModelAnswer, type ModelEndpoint, type WrittenRequest } from './model/provider';

/** The part of an attempt's time for recording the answer, and the wait before a failed recording is tried again. */
const RECORDING_MS = 2_000;
const RECORD_AGAIN_MS = 250;

/** The heartbeat interval of a model call: two heartbeats may be lost before the call counts as dead at `heartbeatMs`. */
export function heartbeatEveryMs(heartbeatMs: number): number {
  return Math.max(100, heartbeatMs / 3);
}

/**
 * Waits before requests 2 and 3 if the provider names none. Temporal's attempt number cannot be used: it also counts
 * attempts that died with a worker.
 */
const WAITS_MS: Readonly<Record<number, number>> = { 1: 2_000, 2: 8_000 };

/**
 * Reads the room once per run and sends at most three model requests.
 *
 * Returns no content. Throws `ModelBusy`, which is retried after the provider's wait.
 */
export function createCallModel(deps: ActivityDeps) {
  const call = async (run: string): Promise<ModelCallResult> => {
    const execution = currentExecution();
    const giveUpAt = Date.now() + timeLeft();
    let written = null as WrittenRequest | null;
    const claim = await claimRequest(
      deps.db,
      execution,
      run,
      (view) => renderContext(view, deps.contextTokens),
      (toSend) => {
        written = write(toSend);
      },
    );
    switch (claim.kind) {
      case 'reply':
        return replied(claim);
      case 'settled':
        return { status: 'settled' };
      case 'closed':
        return { status: 'closed', ending: claim.ending };
      case 'send':
        break;
    }
    const answer = await sendRequest(deps, claim, written ?? write(claim), giveUpAt - RECORDING_MS);
    const record = recordOf(answer);
    // The answer is paid for: while Postgres is down and time is left, keep trying to store it.
    const stored = await retryWhilePostgresIsDown(giveUpAt - RECORD_AGAIN_MS, () =>
      endRequest(deps.db, execution, run, claim.number, record, claim.target),
    );
    return stored === null ? conclude(answer, claim) : replied(stored);
  };
  return async ({ run }: { run: string }): Promise<ModelCallResult> => {
    // The heartbeat has no payload: it delivers a cancellation to this attempt and detects a dead worker.
    const attempt = Context.current();
    const heartbeat = setInterval(() => attempt.heartbeat(), heartbeatEveryMs(deps.timeouts.heartbeatMs));
    try {
      return await call(run);
    } finally {
      clearInterval(heartbeat);
    }
  };
}

async function retryWhilePostgresIsDown<T>(until: number, work: () => Promise<T>): Promise<T> {
  for (;;) {
    try {
      return await work();
    } catch (error) {
      if (!(error instanceof Transient) || Date.now() > until) throw error;
      await new Promise((resolve) => setTimeout(resolve, RECORD_AGAIN_MS));
    }
  }
}

function conclude(answer: ModelAnswer, claim: RequestToSend): ModelCallResult {
  switch (answer.kind) {
    case 'retry': {
      if (claim.number >= claim.limit) return { status: 'settled' };
      throw ApplicationFailure.create({
        type: FAILURE.modelBusy,
        message: `request ${claim.number} of ${claim.limit}: ${answer.code}`,
        nextRetryDelay: answer.namedWaitMs ?? WAITS_MS[claim.number] ?? 1,
      });
    }
    case 'aborted':
      // Only a cancellation ends the call. After a worker stop or an operator's pause, another attempt continues.
      if (Context.current().cancellationDetails?.cancelRequested) throw new CancelledFailure('the run was cancelled');
      throw ApplicationFailure.create({ type: FAILURE.transient, message: 'the attempt was interrupted' });
    case 'busy':
    case 'refused':
    case 'failed':
    case 'reply':
      return { status: 'settled' };
  }
}

/** The request to send, or null without a model or a key. Sends nothing. */
function write({ target, context }: RequestToSend): WrittenRequest | null {
  const endpoint = endpointOf(target);
  return endpoint && writeRequest(endpoint, context);
}

function endpointOf({ protocol, baseUrl, model, ownerSupplied }: ModelTarget): ModelEndpoint | null {
  return protocol === null || baseUrl === null || model === null ? null : { protocol, baseUrl, model, ownerSupplied };
}

// The plain key is used only in this function and in activities/model.
async function sendRequest(
  deps: ActivityDeps,
  { target }: RequestToSend,
  written: WrittenRequest | null,
  answerBy: number,
): Promise<ModelAnswer> {
  // Not `key_rejected`: other agents may share the key.
  if (target.model === null) return { kind: 'refused', code: 'unknown_model', status: null, providerCode: null };
  const { keyId, baseUrl, sealedSecret } = target;
  if (written === null || keyId === null || baseUrl === null || sealedSecret === null) {
    return { kind: 'refused', code: 'key_rejected', status: null, providerCode: null };
  }
  let apiKey: string;
  try {
    apiKey = deps.secretBox.open(sealedSecret, modelKeyBinding(keyId, baseUrl));
  } catch (error) {
    if (error instanceof SecretBoxError)
      throw ApplicationFailure.create({ type: FAILURE.bug, message: error.message, nonRetryable: true });
    throw error;
  }
  return deps.requestReply(written, apiKey, {
    signal: Context.current().cancellationSignal,
    timeoutMs: Math.max(1, answerBy - Date.now()),
    allowedHosts: deps.allowedModelHosts,
  });
}

/**
 * Milliseconds that Temporal gives this attempt, by the earlier of its two limits. Both time stamps are the server's, so
 * a wrong worker clock does no harm.
 */
function timeLeft(): number {
  const info = Context.current().info;
  const spent = info.currentAttemptScheduledTimestampMs - info.scheduledTimestampMs;
  return Math.min(info.startToCloseTimeoutMs, info.scheduleToCloseTimeoutMs - spent);
}

function replied({ reply, sha256, rights }: StoredReply): ModelCallResult {
  const declared = declaredKinds(reply);
  const needsApproval = stepsToHold(planSteps(declared), rights).length > 0;
  return { status: 'reply', sha256, declared, rights, ...(needsApproval && { holds: true }) };
}

function recordOf(answer: ModelAnswer): RequestResult {
  const nothing = {
    code: null,
    httpStatus: null,
    providerCode: null,
    namedWaitMs: null,
    inputTokens: null,
    outputTokens: null,
    reply: null,
  };
  switch (answer.kind) {
    case 'reply':
      return { ...nothing, ...answer.usage, outcome: 'answered', reply: answer.reply };
    case 'failed':
      return { ...nothing, ...answer.usage, outcome: 'failed', code: answer.code };
    case 'retry':
      return { ...nothing, ...refusal(answer), outcome: 'retry', namedWaitMs: answer.namedWaitMs };
    case 'busy':
      return { ...nothing, ...refusal(answer), outcome: 'busy', namedWaitMs: answer.waitMs };
    case 'refused':
      return { ...nothing, ...refusal(answer), outcome: 'refused' };
    case 'aborted':
      return { ...nothing, outcome: 'aborted' };
  }
}

function refusal(answer: { code: string; status: number | null; providerCode: string | null }) {
  return { code: answer.code, httpStatus: answer.status, providerCode: answer.providerCode };
}
