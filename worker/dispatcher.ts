// Carries wakes to Temporal. Any number of dispatchers may run at once: they deliver in turn, and start side by side.

import { context, propagation, ROOT_CONTEXT, trace } from '@opentelemetry/api';
import { WorkflowExecutionAlreadyStartedError, type Client, type WorkflowClient } from '@temporalio/client';
import { defineSearchAttributeKey, TypedSearchAttributes } from '@temporalio/common';
import type { Database } from '../prisma/store/db/database';
import { deliverWakes, markStarted, type DeliveredWake } from '../prisma/store/runs/wakes';
import { WORKFLOW_TYPE, wakeWorkflowId, type AgentRunInput } from '../workflows/contract';
import { AGENT_ID, COMPANY_ID, ROOM_ID, RUN_STATE } from '../workflows/search-attributes';

const roomId = defineSearchAttributeKey(ROOM_ID, 'KEYWORD');
const agentId = defineSearchAttributeKey(AGENT_ID, 'KEYWORD');
const companyId = defineSearchAttributeKey(COMPANY_ID, 'KEYWORD');
const runState = defineSearchAttributeKey(RUN_STATE, 'KEYWORD');

/** Wakes taken in one pass: few enough to be started well within the lease that the store gives them. */
const BATCH = 50;

/**
 * How long a worker that took a workflow task may be silent before another gets it. Deciding takes milliseconds; half the
 * server's default halves what a killed worker costs.
 */
const WORKFLOW_TASK_TIMEOUT = '5s';

export interface DispatcherDeps {
  readonly db: Database;
  readonly client: Client;
  readonly taskQueue: string;
  /** Most runs that one company has in flight; its other wakes wait. No cap where none is named. */
  readonly companyLimit?: number;
  /**
   * Asks Temporal to hand the first workflow task to the worker of this process in the answer to its start, which saves the
   * way through the task queue. Only over that worker's own connection.
   */
  readonly eager?: boolean;
  /** Takes what Temporal acknowledged, to note it later. Noted at once where there is none. */
  readonly acknowledged?: (wakeIds: readonly string[]) => void;
  /** Told of a start that failed; it is repeated within seconds. */
  readonly onStartFailed: (wake: DeliveredWake, error: unknown) => void;
}

/** Well within the lease after which a start that is not noted is repeated. */
const NOTE_AFTER_MS = 1_000;

/**
 * Notes acknowledged starts a second later, together: by then most are claimed, which notes them too, and a run's first
 * steps have the machine for themselves. What is never noted is started again, which Temporal refuses.
 */
export function createAcknowledger(db: Database, onError: (error: unknown) => void) {
  let ids: string[] = [];
  let timer: NodeJS.Timeout | undefined;
  const flush = async (): Promise<void> => {
    clearTimeout(timer);
    timer = undefined;
    const noted = ids;
    ids = [];
    if (noted.length > 0) await markStarted(db, noted).catch(onError);
  };
  return {
    take: (wakeIds: readonly string[]): void => {
      if (wakeIds.length === 0) return;
      ids.push(...wakeIds);
      timer ??= setTimeout(() => void flush(), NOTE_AFTER_MS);
    },
    flush,
  };
}

export interface DispatchPass {
  readonly started: number;
  readonly failed: number;
  /** The pass was full, or more than that where it had to settle: there may be more. */
  readonly full: boolean;
}

/** One pass: takes the wakes that are due, pending or not yet acknowledged, and starts them all at once. */
export async function dispatchOnce(deps: DispatcherDeps): Promise<DispatchPass> {
  const wakes = await deliverWakes(deps.db, BATCH, deps.companyLimit);
  if (wakes.length === 0) return { started: 0, failed: 0, full: false };
  const outcomes = await Promise.all(wakes.map((wake) => start(deps, wake)));
  const started = wakes.filter((_, index) => outcomes[index]).map((wake) => wake.id);
  if (deps.acknowledged) deps.acknowledged(started);
  else if (started.length > 0) await markStarted(deps.db, started);
  return { started: started.length, failed: wakes.length - started.length, full: wakes.length >= BATCH };
}

async function start(deps: DispatcherDeps, wake: DeliveredWake): Promise<boolean> {
  try {
    await inTraceOf(wake, () => startRun(deps.client.workflow, deps.taskQueue, wake, deps.eager));
    return true;
  } catch (error) {
    if (error instanceof WorkflowExecutionAlreadyStartedError) return true;
    deps.onStartFailed(wake, error);
    return false;
  }
}

// The request that caused the wake has ended, perhaps in another process: its trace goes on by what the row carries. Does
// nothing but start where nobody traces.
async function inTraceOf<T>(wake: DeliveredWake, work: () => Promise<T>): Promise<T> {
  if (wake.traceparent === null) return work();
  const parent = propagation.extract(ROOT_CONTEXT, { traceparent: wake.traceparent });
  const ids = { 'durable_room.wake': wake.id, 'durable_room.room': wake.roomId };
  return context.with(parent, () =>
    trace
      .getTracer('durable-room')
      .startActiveSpan('dispatch wake', { attributes: ids }, (span) => work().finally(() => span.end())),
  );
}

/**
 * Starts the workflow of a wake. Temporal refuses a second one for as long as it remembers; afterwards the claim does.
 * @throws WorkflowExecutionAlreadyStartedError, which counts as delivered
 */
export async function startRun(
  workflow: WorkflowClient,
  taskQueue: string,
  wake: DeliveredWake,
  eager = false,
): Promise<string> {
  const input: AgentRunInput = { agent: wake.agentId, message: wake.messageId };
  const handle = await workflow.start(WORKFLOW_TYPE, {
    workflowId: wakeWorkflowId(wake.agentId, wake.messageId),
    taskQueue,
    args: [input],
    workflowIdReusePolicy: 'REJECT_DUPLICATE',
    workflowIdConflictPolicy: 'FAIL',
    workflowTaskTimeout: WORKFLOW_TASK_TIMEOUT,
    requestEagerStart: eager,
    staticSummary: `wake ${wake.id}`,
    typedSearchAttributes: new TypedSearchAttributes([
      { key: roomId, value: wake.roomId },
      { key: agentId, value: wake.agentId },
      { key: companyId, value: wake.companyId },
      { key: runState, value: 'open' },
    ]),
  });
  return handle.firstExecutionRunId;
}
