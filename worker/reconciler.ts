// Makes sure that every wake, run and held action ends. Parked runs are checked in parked-sweep.ts. If Temporal can't be
// reached or its namespace is missing, the pass throws and decides nothing; everything that it left is due again later.

import { WorkflowNotFoundError, type Client } from '@temporalio/client';
import type { Logger } from 'pino';
import { claimAsLost } from '../prisma/store/runs/claims';
import { expireHeldActions } from '../prisma/store/runs/held-actions/decide';
import { EXECUTION_SECONDS, PARKED_CHECK_SECONDS } from '../prisma/store/runs/held-actions/execute';
import { leaseOrphans, takeDueRuns, type DueRun } from '../prisma/store/runs/reconciliation';
import { closeAsLost } from '../prisma/store/runs/fence';
import { signalAgain } from '../prisma/store/runs/signals';
import type { Database } from '../prisma/store/db/database';
import { startAgain, takeUnclaimedWakes, type DeliveredWake } from '../prisma/store/runs/wakes';
import { WORKFLOW_TYPE, wakeWorkflowId } from '../workflows/contract';
import { RECHECK_SIGNAL } from '../workflows/messages';
import { RUN_STATE } from '../workflows/search-attributes';
import { createLoop, type Loop, type OnPass } from './loop';

const BATCH = 100;
/** Most open executions that one pass lists. */
const LISTED_EXECUTIONS = 1_000;

export interface ReconcilerTimes {
  /** A wake or run is checked again after this long: three checks fit into the minute within which a lost run is found. */
  readonly recheckSeconds: number;
  /** A running workflow that has not claimed its wake after this long is terminated. */
  readonly unclaimedLimitSeconds: number;
  /** A run that is open this long past its time limit is closed as lost. */
  readonly pastLimitMs: number;
  /** The run of a decision that was not executed after this long is closed as lost. */
  readonly executionLimitSeconds: number;
  /** An execution that is open this long after its run was closed is signalled. */
  readonly orphanGraceSeconds: number;
}

export const RECONCILER_TIMES: ReconcilerTimes = {
  recheckSeconds: 20,
  unclaimedLimitSeconds: 24 * 60 * 60,
  pastLimitMs: 5 * 60_000,
  executionLimitSeconds: 24 * 60 * 60,
  orphanGraceSeconds: 30,
};

export interface ReconcilerDeps {
  readonly db: Database;
  readonly client: Client;
  readonly taskQueue: string;
  readonly timeLimitMs: number;
  readonly times: ReconcilerTimes;
  /** Called for everything that a pass ended or restarted, with a short text and ids; never with content. */
  readonly onAction: (action: string, ids: Record<string, string>) => void;
}

export interface ReconcilePass {
  readonly checked: number;
  readonly acted: number;
}

export interface ReconcilerLoopDeps {
  readonly reconciler: ReconcilerDeps;
  readonly intervalMs: number;
  readonly log: Logger;
  readonly onPass?: OnPass | undefined;
}

export function createReconcilerLoop({ reconciler, intervalMs, log, onPass }: ReconcilerLoopDeps): Loop {
  return createLoop({
    intervalMs,
    onError: (error) => log.error({ err: error }, 'reconciler pass failed'),
    onPass,
    runOnce: () => reconcileOnce(reconciler),
  });
}

/** One pass over held actions, wakes, runs and orphaned executions. A failure of one does not stop the others. */
export async function reconcileOnce(deps: ReconcilerDeps): Promise<ReconcilePass> {
  const expired = await expireHeldActions(deps.db, BATCH);
  const wakes = await takeUnclaimedWakes(deps.db, BATCH, deps.times.recheckSeconds);
  const runs = await takeDueRuns(deps.db, BATCH, {
    open: deps.times.recheckSeconds,
    decided: EXECUTION_SECONDS,
    parked: PARKED_CHECK_SECONDS,
  });
  const results = await Promise.allSettled([
    ...wakes.map((wake) => reconcileWake(deps, wake)),
    ...runs.map((run) => reconcileRun(deps, run)),
    sweepOrphans(deps),
  ]);
  const failure = results.find((result) => result.status === 'rejected');
  const acted = results.reduce((sum, result) => sum + (result.status === 'fulfilled' ? result.value : 0), 0);
  if (failure) throw failure.reason;
  return { checked: wakes.length + runs.length, acted: acted + expired };
}

type Found = 'running' | 'closed' | 'not_found';

/** Only these statuses mean that an execution ended. Any other, such as paused or one of a newer server, means running. */
const CLOSED: ReadonlySet<string> = new Set([
  'COMPLETED',
  'FAILED',
  'CANCELLED',
  'TERMINATED',
  'CONTINUED_AS_NEW',
  'TIMED_OUT',
]);

async function reconcileWake(deps: ReconcilerDeps, wake: DeliveredWake & { ageSeconds: number }): Promise<number> {
  const workflowId = wakeWorkflowId(wake.agentId, wake.messageId);
  const found = await findExecution(deps.client, workflowId);
  const ids = { wake: wake.id, workflow: workflowId };
  switch (found) {
    case 'not_found':
      await startAgain(deps.db, wake.id);
      deps.onAction('wake is started again: Temporal does not know its workflow', ids);
      return 1;
    case 'running':
      if (wake.ageSeconds < deps.times.unclaimedLimitSeconds) return 0;
      break;
    case 'closed':
      break;
  }
  const limits = { timeLimitMs: deps.timeLimitMs };
  const run = await claimAsLost(deps.db, { ...wake, workflowId }, limits);
  if (run === null) return 0;
  if (found === 'running')
    await terminate(deps.client, workflowId, undefined, 'the wake was not claimed within its time');
  deps.onAction('wake is lost', { ...ids, run });
  return 1;
}

async function reconcileRun(deps: ReconcilerDeps, run: DueRun): Promise<number> {
  const overdue =
    run.pastLimitMs > deps.times.pastLimitMs || (run.decidedSeconds ?? 0) > deps.times.executionLimitSeconds;
  const found = await findExecution(deps.client, run.workflowId, run.temporalRunId ?? undefined);
  if (found === 'running' && !overdue) {
    if (run.decidedSeconds === null) return 0;
    await signalAgain(deps.db, run.id);
    deps.onAction('decision is signalled again', { run: run.id, workflow: run.workflowId });
    return 1;
  }
  if (!(await closeAsLost(deps.db, run.id))) return 0;
  if (found === 'running') {
    await terminate(
      deps.client,
      run.workflowId,
      run.temporalRunId ?? undefined,
      'the run was open long past its limit, or a decision was not executed',
    );
  }
  deps.onAction('run is lost', { run: run.id, workflow: run.workflowId });
  return 1;
}

// Orphans: a reset or restored copy, or an execution whose run was closed elsewhere. Each is signalled by its own run id and
// then stopped by the fence.
async function sweepOrphans(deps: ReconcilerDeps): Promise<number> {
  // Without parked executions, which would fill every listing; parked-sweep.ts checks them.
  const query = `${ofRuns(deps)} AND ExecutionStatus = 'Running' AND (${RUN_STATE} != 'parked' OR ${RUN_STATE} IS NULL)`;
  const open: { workflowId: string; temporalRunId: string }[] = [];
  for await (const execution of deps.client.workflow.list({ query, pageSize: 200 })) {
    open.push({ workflowId: execution.workflowId, temporalRunId: execution.runId });
    if (open.length >= LISTED_EXECUTIONS) break;
  }
  const orphans = await leaseOrphans(deps.db, open, deps.times.orphanGraceSeconds, deps.times.recheckSeconds);
  await signalOrphans(deps, orphans);
  return orphans.length;
}

/** The visibility query that finds the executions of our runs. */
export function ofRuns({ taskQueue }: Pick<ReconcilerDeps, 'taskQueue'>): string {
  return `WorkflowType = '${WORKFLOW_TYPE}' AND TaskQueue = '${taskQueue}'`;
}

/** Signals executions that may no longer act to check their run again: the fence refuses each, and it ends. */
export async function signalOrphans(
  deps: ReconcilerDeps,
  orphans: readonly { workflowId: string; temporalRunId: string }[],
): Promise<void> {
  for (const orphan of orphans) {
    try {
      await deps.client.workflow.getHandle(orphan.workflowId, orphan.temporalRunId).signal(RECHECK_SIGNAL);
      deps.onAction('orphaned execution is signalled', { workflow: orphan.workflowId, run: orphan.temporalRunId });
    } catch (error) {
      if (!(error instanceof WorkflowNotFoundError)) throw error;
    }
  }
}

// A missing namespace is not the same error as a missing workflow: it is thrown, like an unreachable server.
async function findExecution(client: Client, workflowId: string, temporalRunId?: string): Promise<Found> {
  try {
    const { status } = await client.workflow.getHandle(workflowId, temporalRunId).describe();
    return CLOSED.has(status.name) ? 'closed' : 'running';
  } catch (error) {
    if (error instanceof WorkflowNotFoundError) return 'not_found';
    throw error;
  }
}

async function terminate(client: Client, workflowId: string, runId: string | undefined, reason: string): Promise<void> {
  try {
    await client.workflow.getHandle(workflowId, runId).terminate(reason);
  } catch (error) {
    if (!(error instanceof WorkflowNotFoundError)) throw error;
  }
}
