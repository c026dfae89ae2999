// Ends what nothing else will: every wake, run and held action gets its ending. Parked runs are `parked-sweep.ts`'. Temporal unreachable, or its namespace missing,
// is never "gone": such a pass throws, and what it did not decide is due again.

import { WorkflowNotFoundError, type Client } from '@temporalio/client';
import { claimAsLost } from '../prisma/store/runs/claims';
import { expireHeldActions } from '../prisma/store/runs/held-actions/decide';
import { CARRY_OUT_SECONDS, PARKED_LOOK_SECONDS } from '../prisma/store/runs/held-actions/execute';
import { takeDueRuns, leaseOrphans, type DueRun } from '../prisma/store/runs/reconciliation';
import { closeAsLost } from '../prisma/store/runs/fence';
import { signalAgain } from '../prisma/store/runs/signals';
import type { Database } from '../prisma/store/db/database';
import { startAgain, takeUnclaimedWakes, type DeliveredWake } from '../prisma/store/runs/wakes';
import { WORKFLOW_TYPE, wakeWorkflowId } from '../workflows/contract';
import { RECHECK_SIGNAL } from '../workflows/messages';
import { RUN_STATE } from '../workflows/search-attributes';

const BATCH = 100;
/** Most open executions that one sweep looks through. */
const SWEEP = 1_000;

export interface ReconcilerTimes {
  /** A wake or run is looked at again after this long: three looks fit into the minute a run may be lost for. */
  readonly lookAgainSeconds: number;
  /** An open workflow that has not claimed for this long is given up. */
  readonly unclaimedLimitSeconds: number;
  /** A run open for this long past its time limit is given up. */
  readonly pastLimitMs: number;
  /** A decision that was not carried out for this long is given up, and its run with it. */
  readonly carryOutLimitSeconds: number;
  /** An execution still open this long after its run was closed is told to look again. */
  readonly strayGraceSeconds: number;
}

export const RECONCILER_TIMES: ReconcilerTimes = {
  lookAgainSeconds: 20,
  unclaimedLimitSeconds: 24 * 60 * 60,
  pastLimitMs: 5 * 60_000,
  carryOutLimitSeconds: 24 * 60 * 60,
  strayGraceSeconds: 30,
};

export interface ReconcilerDeps {
  readonly db: Database;
  readonly client: Client;
  readonly taskQueue: string;
  readonly timeLimitMs: number;
  readonly times: ReconcilerTimes;
  /** Told of everything that was ended or set going here, in a few words without content. */
  readonly onAction: (action: string, ids: Record<string, string>) => void;
}

export interface ReconcilePass {
  readonly looked: number;
  readonly acted: number;
}

/** One pass over held actions, wakes, runs and stray executions. What fails for one does not keep the others from their ending. */
export async function reconcileOnce(deps: ReconcilerDeps): Promise<ReconcilePass> {
  const expired = await expireHeldActions(deps.db, BATCH);
  const wakes = await takeUnclaimedWakes(deps.db, BATCH, deps.times.lookAgainSeconds);
  const runs = await takeDueRuns(deps.db, BATCH, {
    open: deps.times.lookAgainSeconds,
    decided: CARRY_OUT_SECONDS,
    parked: PARKED_LOOK_SECONDS,
  });
  const results = await Promise.allSettled([
    ...wakes.map((wake) => reconcileWake(deps, wake)),
    ...runs.map((run) => reconcileRun(deps, run)),
    sweepStrays(deps),
  ]);
  const failure = results.find((result) => result.status === 'rejected');
  const acted = results.reduce((sum, result) => sum + (result.status === 'fulfilled' ? result.value : 0), 0);
  if (failure) throw failure.reason;
  return { looked: wakes.length + runs.length, acted: acted + expired };
}

type Found = 'running' | 'closed' | 'not_found';

/** A status that is not known to be an end is none: paused, or one that a newer server invents. */
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
    run.pastLimitMs > deps.times.pastLimitMs || (run.decidedSeconds ?? 0) > deps.times.carryOutLimitSeconds;
  const found = await findExecution(deps.client, run.workflowId, run.temporalRunId ?? undefined);
  if (found === 'running' && !overdue) {
    if (run.decidedSeconds === null) return 0;
    await signalAgain(deps.db, run.id);
    deps.onAction('decision is told again', { run: run.id, workflow: run.workflowId });
    return 1;
  }
  if (!(await closeAsLost(deps.db, run.id))) return 0;
  if (found === 'running') {
    await terminate(
      deps.client,
      run.workflowId,
      run.temporalRunId ?? undefined,
      'the run was open long past its limit, or a decision was not carried out',
    );
  }
  deps.onAction('run is lost', { run: run.id, workflow: run.workflowId });
  return 1;
}

// A reset or restored copy, or one whose run was closed elsewhere. Signalled by its own run id, it meets the fence.
async function sweepStrays(deps: ReconcilerDeps): Promise<number> {
  // Parked ones would fill every listing: they have a sweep of their own.
  const query = `${ofRuns(deps)} AND ExecutionStatus = 'Running' AND (${RUN_STATE} != 'parked' OR ${RUN_STATE} IS NULL)`;
  const open: { workflowId: string; temporalRunId: string }[] = [];
  for await (const execution of deps.client.workflow.list({ query, pageSize: 200 })) {
    open.push({ workflowId: execution.workflowId, temporalRunId: execution.runId });
    if (open.length >= SWEEP) break;
  }
  const strays = await leaseOrphans(deps.db, open, deps.times.strayGraceSeconds, deps.times.lookAgainSeconds);
  await tellStrays(deps, strays);
  return strays.length;
}

/** The executions of our runs, as visibility is asked for them. */
export function ofRuns({ taskQueue }: Pick<ReconcilerDeps, 'taskQueue'>): string {
  return `WorkflowType = '${WORKFLOW_TYPE}' AND TaskQueue = '${taskQueue}'`;
}

/** Tells executions that will never act again to look: each meets the fence, and ends. */
export async function tellStrays(
  deps: ReconcilerDeps,
  strays: readonly { workflowId: string; temporalRunId: string }[],
): Promise<void> {
  for (const stray of strays) {
    try {
      await deps.client.workflow.getHandle(stray.workflowId, stray.temporalRunId).signal(RECHECK_SIGNAL);
      deps.onAction('stray execution is told to look again', { workflow: stray.workflowId, run: stray.temporalRunId });
    } catch (error) {
      if (!(error instanceof WorkflowNotFoundError)) throw error;
    }
  }
}

// A missing namespace is another error than a missing workflow, and is thrown like an unreachable server.
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
