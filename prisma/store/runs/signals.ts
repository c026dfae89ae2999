// The outbox of signals to running workflows: a signal is written in the transaction that causes it, and a dispatcher sends
// it.
//
//   written ──▶ delivered (Temporal accepted it, or has no such execution) ──signalAgain──▶ written

import type { HeldActionState, RunSignalKind } from '../../../workflows/contract';
import { WAKES_CHANNEL } from '../rooms/room-draft';
import { newId } from '../db/ids';
import type { Database } from '../db/database';
import type { SqlTx } from '../db/transaction';

/** The payload on the dispatchers' channel for a pending signal. A hint: the table is the truth. */
export const SIGNALS_NOTIFICATION = 'signals';

/** How long a dispatcher has to send a signal before another dispatcher may. */
const SIGNAL_LEASE_SECONDS = 5;

/** A signal to a workflow. */
export interface RunSignal {
  readonly id: string;
  readonly runId: string;
  readonly workflowId: string;
  readonly temporalRunId: string;
  readonly kind: RunSignalKind;
  /** The step of the decided action, and the action's state. Null for a recheck. */
  readonly step: string | null;
  readonly state: HeldActionState | null;
}

/** Adds the signal of a decided action to the outbox. */
export async function addDecisionSignal(tx: SqlTx, runId: string, heldActionId: string): Promise<void> {
  await addSignal(tx, runId, 'decision', heldActionId);
}

/** Adds a signal that makes a workflow read its run again, because the run was closed from outside. */
export async function addRecheckSignal(tx: SqlTx, runId: string): Promise<void> {
  await addSignal(tx, runId, 'recheck', null);
}

async function addSignal(tx: SqlTx, runId: string, kind: RunSignalKind, heldActionId: string | null): Promise<void> {
  await tx.$executeRaw`
    INSERT INTO run_signals (id, run_id, kind, held_action_id)
    VALUES (${newId('sig')}, ${runId}, ${kind}, ${heldActionId})`;
  await tx.$queryRaw`SELECT pg_notify(${WAKES_CHANNEL}, ${SIGNALS_NOTIFICATION})::text AS notified`;
}

/** Up to `limit` signals that are due, oldest first, each leased to this caller for a few seconds. */
export async function takeSignals(db: Database, limit: number): Promise<RunSignal[]> {
  return db.sqlTransaction(
    (tx) => tx.$queryRaw<RunSignal[]>`
    WITH taken AS (
      UPDATE run_signals SET due_at = clock_ms() + make_interval(secs => ${SIGNAL_LEASE_SECONDS})
      WHERE id IN (
        SELECT id FROM run_signals WHERE delivered_at IS NULL AND due_at <= clock_ms()
        ORDER BY due_at, id LIMIT ${limit} FOR NO KEY UPDATE SKIP LOCKED
      )
      RETURNING id, run_id, kind, held_action_id
    )
    SELECT t.id, t.run_id AS "runId", r.workflow_id AS "workflowId", r.temporal_run_id AS "temporalRunId", t.kind,
           h.step_key AS step, h.state
    FROM taken t JOIN runs r ON r.id = t.run_id LEFT JOIN held_actions h ON h.id = t.held_action_id
    ORDER BY t.id`,
  );
}

/** Marks these signals as delivered. */
export async function markDelivered(db: Database, signalIds: readonly string[]): Promise<void> {
  await db.$executeRaw`
    UPDATE run_signals SET delivered_at = clock_ms() WHERE id = ANY(${[...signalIds]}::text[])`;
}

/** Makes the delivered decision signals of a run due again, because a decision was not executed in time. */
export async function signalAgain(db: Database, runId: string): Promise<void> {
  await db.$executeRaw`
    UPDATE run_signals SET delivered_at = NULL, due_at = clock_ms()
    WHERE run_id = ${runId} AND kind = 'decision' AND delivered_at IS NOT NULL`;
}
