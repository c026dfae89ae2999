// The reads of the reconciler: runs that are due, and the runs of the executions that Temporal lists.

import type { Database } from '../db/database';

export interface DueRun {
  readonly id: string;
  readonly workflowId: string;
  readonly temporalRunId: string | null;
  /** Milliseconds since its time limit, without parked time; negative before the limit, and for a parked run. */
  readonly pastLimitMs: number;
  /** Age in seconds of the oldest decision that is not executed; null without one. */
  readonly decidedSeconds: number | null;
}

/**
 * Up to `limit` open runs that are due for a check, each leased to this caller: `lease.decided` seconds for a run with a
 * decision to execute, `lease.parked` for another parked run, and `lease.open` for the rest.
 */
export async function takeDueRuns(
  db: Database,
  limit: number,
  lease: { readonly open: number; readonly decided: number; readonly parked: number },
): Promise<DueRun[]> {
  return db.$queryRaw<DueRun[]>`
    UPDATE runs SET due_at = clock_ms() + make_interval(secs => CASE
      WHEN decided_at IS NOT NULL THEN ${lease.decided}::float8
      WHEN parked_at IS NOT NULL THEN ${lease.parked}::float8
      ELSE ${lease.open}::float8 END)
    WHERE id IN (
      SELECT id FROM runs WHERE state = 'open' AND due_at <= clock_ms()
      ORDER BY due_at LIMIT ${limit} FOR NO KEY UPDATE SKIP LOCKED
    )
    RETURNING id, workflow_id AS "workflowId", temporal_run_id AS "temporalRunId",
              CASE WHEN parked_at IS NOT NULL THEN -1 ELSE
                (extract(epoch FROM clock_ms() - claimed_at) * 1000)::float8 - time_limit_ms - parked_ms
              END AS "pastLimitMs",
              extract(epoch FROM clock_ms() - decided_at)::float8 AS "decidedSeconds"`;
}

/**
 * The orphans among these executions. An orphan may never act again: its run closed at least `graceSeconds` ago, or belongs
 * to another execution.
 *
 * The closed run of an orphan is leased to this caller for `leaseSeconds`. Without the lease, every pass of every reconciler
 * would signal a slow execution again and add load to a busy cluster.
 */
export async function leaseOrphans(
  db: Database,
  executions: readonly { workflowId: string; temporalRunId: string }[],
  graceSeconds: number,
  leaseSeconds: number,
): Promise<{ workflowId: string; temporalRunId: string }[]> {
  if (executions.length === 0) return [];
  const listed = executions.map((each) => ({ workflow_id: each.workflowId, run_id: each.temporalRunId }));
  return db.$queryRaw<{ workflowId: string; temporalRunId: string }[]>`
    WITH orphans AS (
      SELECT r.id, r.state, x.workflow_id, x.run_id
      FROM jsonb_to_recordset(${JSON.stringify(listed)}::jsonb) AS x(workflow_id text, run_id text)
      JOIN runs r ON r.workflow_id = x.workflow_id
      WHERE (r.temporal_run_id IS DISTINCT FROM x.run_id
             OR r.closed_at < clock_ms() - make_interval(secs => ${graceSeconds}))
        AND (r.state = 'open' OR r.due_at <= clock_ms())
    ), leased AS (
      UPDATE runs SET due_at = clock_ms() + make_interval(secs => ${leaseSeconds})
      WHERE id IN (
        SELECT id FROM runs
        WHERE id IN (SELECT id FROM orphans) AND state = 'closed' AND due_at <= clock_ms()
        FOR NO KEY UPDATE SKIP LOCKED
      )
      RETURNING id
    )
    SELECT workflow_id AS "workflowId", run_id AS "temporalRunId"
    FROM orphans WHERE state = 'open' OR id IN (SELECT id FROM leased)`;
}

/** The runs of these closed executions that are still open. */
export async function findOpenRunsOf(
  db: Database,
  executions: readonly { workflowId: string; temporalRunId: string }[],
): Promise<{ id: string; workflowId: string }[]> {
  if (executions.length === 0) return [];
  const listed = executions.map((each) => ({ workflow_id: each.workflowId, run_id: each.temporalRunId }));
  return db.$queryRaw<{ id: string; workflowId: string }[]>`
    SELECT r.id, r.workflow_id AS "workflowId"
    FROM jsonb_to_recordset(${JSON.stringify(listed)}::jsonb) AS x(workflow_id text, run_id text)
    JOIN runs r ON r.workflow_id = x.workflow_id AND r.temporal_run_id = x.run_id
    WHERE r.state = 'open'`;
}

/** The executions without a run in Postgres. The database was restored from a backup that is older than their claim. */
export async function findExecutionsWithoutRun(
  db: Database,
  executions: readonly { workflowId: string; temporalRunId: string }[],
): Promise<{ workflowId: string; temporalRunId: string }[]> {
  if (executions.length === 0) return [];
  const listed = executions.map((each) => ({ workflow_id: each.workflowId, run_id: each.temporalRunId }));
  return db.$queryRaw<{ workflowId: string; temporalRunId: string }[]>`
    SELECT x.workflow_id AS "workflowId", x.run_id AS "temporalRunId"
    FROM jsonb_to_recordset(${JSON.stringify(listed)}::jsonb) AS x(workflow_id text, run_id text)
    WHERE NOT EXISTS (SELECT FROM runs r WHERE r.workflow_id = x.workflow_id)`;
}
