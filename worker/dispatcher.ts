// Starts one workflow per wake. Several dispatchers may run at once: they take wakes in turn and start them in parallel.
// Next on the path: workflows/agent-run.ts.

import { context, propagation, ROOT_CONTEXT, trace } from '@opentelemetry/api';
import { WorkflowExecutionAlreadyStartedError, type Client, type WorkflowClient } from '@temporalio/client';
import { defineSearchAttributeKey, TypedSearchAttributes } from '@temporalio/common';
import type { Logger } from 'pino';
import type { Database } from '../prisma/store/db/database';
import { deliverWakes, markStarted, type DeliveredWake } from '../prisma/store/runs/wakes';
import { WORKFLOW_TYPE, wakeWorkflowId, type AgentRunInput } from '../workflows/contract';
import { AGENT_ID, COMPANY_ID, ROOM_ID, RUN_STATE } from '../workflows/search-attributes';
import { createLoop, type Loop, type OnPass } from './loop';

const roomId = defineSearchAttributeKey(ROOM_ID, 'KEYWORD');
const agentId = defineSearchAttributeKey(AGENT_ID, 'KEYWORD');
const companyId = defineSearchAttributeKey(COMPANY_ID, 'KEYWORD');
const runState = defineSearchAttributeKey(RUN_STATE, 'KEYWORD');

/** Wakes per pass: few enough to start well within the lease that the store gives them. */
const BATCH = 50;

/**
 * How long a worker that took a workflow task may be silent before another worker gets the task. A decision takes
 * milliseconds; half of the server's default halves the delay after a worker is killed.
 */
const WORKFLOW_TASK_TIMEOUT = '5s';

export interface DispatcherDeps {
  readonly db: Database;
  readonly client: Client;
  readonly taskQueue: string;
  /** Most runs in flight of one company; its other wakes wait. Undefined: no limit. */
  readonly companyLimit?: number;
  /**
   * Asks Temporal to return the first workflow task to this process's worker in the answer to the start, which saves the
   * way through the task queue. Works only over that worker's own connection.
   */
  readonly eager?: boolean;
  /** Takes the wakes whose start Temporal acknowledged, to record them later. Without it they are recorded at once. */
  readonly acknowledged?: (wakeIds: readonly string[]) => void;
  /** Called for a start that failed; it is repeated within seconds. */
  readonly onStartFailed: (wake: DeliveredWake, error: unknown) => void;
}

/** Well within the lease after which an unrecorded start is repeated. */
const RECORD_AFTER_MS = 1_000;

/**
 * Records acknowledged starts together, a second later: by then most of these wakes are claimed, and a claim records the
 * start too. An unrecorded start is repeated, and Temporal refuses the repetition.
 */
export function createAcknowledger(db: Database, onError: (error: unknown) => void) {
  let pending: string[] = [];
  let timer: NodeJS.Timeout | undefined;
  const flush = async (): Promise<void> => {
    clearTimeout(timer);
    timer = undefined;
    const ids = pending;
    pending = [];
    if (ids.length > 0) await markStarted(db, ids).catch(onError);
  };
  return {
    take: (wakeIds: readonly string[]): void => {
      if (wakeIds.length === 0) return;
      pending.push(...wakeIds);
      timer ??= setTimeout(() => void flush(), RECORD_AFTER_MS);
    },
    flush,
  };
}

export interface DispatchPass {
  readonly started: number;
  readonly failed: number;
  /** The batch was full, so more wakes may be due. */
  readonly full: boolean;
}

export interface DispatcherLoopDeps extends Pick<
  DispatcherDeps,
  'db' | 'client' | 'taskQueue' | 'companyLimit' | 'eager'
> {
  readonly intervalMs: number;
  readonly log: Logger;
  readonly onDispatched: (pass: DispatchPass) => void;
  readonly onPass?: OnPass | undefined;
}

/** The loop over due wakes. Its `stop` also records the starts that were acknowledged. */
export function createDispatcherLoop(deps: DispatcherLoopDeps): Loop {
  const { log } = deps;
  const acknowledger = createAcknowledger(deps.db, (error) =>
    log.warn({ err: error }, 'starts were not recorded; they are repeated'),
  );
  const loop = createLoop({
    intervalMs: deps.intervalMs,
    onError: (error) => log.error({ err: error }, 'dispatcher pass failed'),
    onPass: deps.onPass,
    hasMore: (pass: DispatchPass) => pass.full,
    runOnce: async () => {
      const pass = await dispatchOnce({
        ...deps,
        acknowledged: acknowledger.take,
        onStartFailed: (wake, error) => log.warn({ wake: wake.id, err: error }, 'start failed; it is repeated'),
      });
      deps.onDispatched(pass);
      if (pass.started > 0) log.debug({ started: pass.started }, 'wakes started');
      return pass;
    },
  });
  return {
    start: () => loop.start(),
    trigger: () => loop.trigger(),
    stop: async () => {
      await loop.stop();
      await acknowledger.flush();
    },
    get lastSuccessAt() {
      return loop.lastSuccessAt;
    },
  };
}

/** One pass: takes the wakes that are due, pending or not yet acknowledged, and starts all of them in parallel. */
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

// The request that caused the wake has ended, perhaps in another process: its trace continues from the wake's traceparent.
// Without a traceparent this only calls `work`.
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
 * Starts the workflow of a wake. Temporal refuses a second start while it keeps the first execution; after that the claim
 * refuses it.
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
