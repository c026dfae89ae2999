// Wakes: the outbox. A wake is delivered by a guarded update before its workflow is started; a start that fails or
// whose dispatcher dies is due again within seconds.
//
//   pending ──gates, allowance, budget──▶ delivered ──claim──▶ claimed
//      └──a gate is shut──▶ suppressed (final)

import type { SuppressedReason } from '../../workflows/contract';
import { findOverBudget, isBudgeted, lockBudgets, type BudgetFacts } from './budgets';
import { RoomDraft } from './draft';
import { shutGate, type GateFacts } from './gates';
import { stageSuppressed } from './messages';
import { inSqlTransaction, type Db, type SqlTx } from './transaction';

/** A wake whose workflow is to be started. */
export interface DeliveredWake {
  readonly id: string;
  readonly agentId: string;
  readonly messageId: string;
  readonly roomId: string;
  readonly companyId: string;
}

interface DueWake extends DeliveredWake, Omit<GateFacts, 'allowance' | 'budgetUsedUp'>, BudgetFacts {
  readonly state: 'pending' | 'delivered';
}

/** How long a dispatcher has for starting a workflow before the wake is due for another. */
const START_LEASE_SECONDS = 5;

/** How long after its start a wake that nobody claimed is looked at by the reconciler. */
const UNCLAIMED_GRACE_SECONDS = 20;

/**
 * Delivers up to `limit` pending wakes and returns those whose workflow is to be started now, with those delivered
 * earlier whose start was not acknowledged in time.
 *
 * Wakes locked by another dispatcher are passed over. Gates are checked, the allowance is spent, budgets are reserved and
 * `delivered` is written in one transaction, before anything is started; each wake is leased to this caller for a few
 * seconds.
 */
export async function deliverWakes(db: Db, limit: number): Promise<DeliveredWake[]> {
  return inSqlTransaction(db, async (tx) => {
    const due = await tx.$queryRaw<DueWake[]>`
      SELECT w.id, w.agent_id AS "agentId", w.message_id AS "messageId", w.room_id AS "roomId",
             w.company_id AS "companyId", w.state, w.hop, r.hop_limit AS "hopLimit",
             r.closed_at IS NOT NULL AS "roomClosed", r.paused_at IS NOT NULL AS "roomPaused",
             m.left_at IS NULL AS "isMember", ra.removed_at IS NULL AS "onRoster",
             a.paused_at IS NOT NULL AS "agentPaused", c.suspended_at IS NOT NULL AS "companySuspended",
             (k.id IS NULL OR k.revoked_at IS NOT NULL OR k.rejected_version IS NOT DISTINCT FROM k.version)
               AS "keyRejected",
             a.tokens_per_day AS "agentTokensPerDay", c.tokens_per_day AS "companyTokensPerDay",
             a.tokens_per_run AS "tokensPerRun"
      FROM wakes w
      JOIN rooms r ON r.id = w.room_id
      JOIN agents a ON a.id = w.agent_id
      JOIN companies c ON c.id = w.company_id
      JOIN room_members m ON m.room_id = w.room_id AND m.company_id = w.company_id
      JOIN room_agents ra ON ra.room_id = w.room_id AND ra.agent_id = w.agent_id
      LEFT JOIN model_keys k ON k.id = a.model_key_id
      WHERE (w.state = 'pending' OR w.state = 'delivered') AND w.started_at IS NULL AND w.due_at <= clock_timestamp()
      ORDER BY w.due_at LIMIT ${limit}
      FOR NO KEY UPDATE OF w SKIP LOCKED`;
    if (due.length === 0) return [];
    const pending = due.filter((wake) => wake.state === 'pending');
    const suppressed = pending.flatMap((wake): Suppressed[] => {
      const reason = shutGate({ ...wake, allowance: 1, budgetUsedUp: false });
      return reason === null ? [] : [{ ...wake, reason }];
    });
    const open = pending.filter((wake) => !suppressed.some((shut) => shut.id === wake.id));
    const again = due.filter((wake) => wake.state === 'delivered');
    const budgeted = open.filter(isBudgeted);
    const today = budgeted.length > 0 ? await lockBudgets(tx, budgeted) : null;
    // Suppressing writes into rooms too: all of them are then locked at once, in the one order, before any is written to.
    const allowances = suppressed.length > 0 || today !== null ? await lockRooms(tx, pending) : null;
    const over = today && allowances ? findOverBudget(open, allowances, today) : null;
    const within = over ? open.filter((wake) => !over.has(wake.id)) : open;
    const delivered = await lease(tx, within, again, today?.day ?? null);
    const unpaid = open.filter((wake) => !delivered.has(wake.id));
    await suppressWakes(tx, [
      ...suppressed,
      ...unpaid.map((wake) => ({ ...wake, reason: over?.has(wake.id) ? ('budget' as const) : ('allowance' as const) })),
    ]);
    return due.filter((wake) => delivered.has(wake.id));
  });
}

/** Notes that Temporal acknowledged these starts; already-started counts. */
export async function markStarted(db: Db, wakeIds: readonly string[]): Promise<void> {
  await db.$executeRaw`
    UPDATE wakes SET started_at = clock_timestamp(),
                     due_at = clock_timestamp() + make_interval(secs => ${UNCLAIMED_GRACE_SECONDS})
    WHERE id = ANY(${[...wakeIds]}::text[]) AND started_at IS NULL`;
}

/** Wakes started a while ago and not claimed, each leased to this caller for the reconciler's next look. */
export async function takeUnclaimedWakes(
  db: Db,
  limit: number,
  leaseSeconds: number,
): Promise<(DeliveredWake & { ageSeconds: number })[]> {
  return db.$queryRaw<(DeliveredWake & { ageSeconds: number })[]>`
    UPDATE wakes SET due_at = clock_timestamp() + make_interval(secs => ${leaseSeconds})
    WHERE id IN (
      SELECT id FROM wakes
      WHERE state = 'delivered' AND started_at IS NOT NULL AND due_at <= clock_timestamp()
      ORDER BY due_at LIMIT ${limit} FOR NO KEY UPDATE SKIP LOCKED
    )
    RETURNING id, agent_id AS "agentId", message_id AS "messageId", room_id AS "roomId", company_id AS "companyId",
              extract(epoch FROM clock_timestamp() - delivered_at)::float8 AS "ageSeconds"`;
}

/** Sends a delivered wake back to be started again: Temporal no longer knows its workflow. */
export async function startAgain(db: Db, wakeId: string): Promise<void> {
  await db.$executeRaw`
    UPDATE wakes SET started_at = NULL, due_at = clock_timestamp() WHERE id = ${wakeId} AND state = 'delivered'`;
}

/** Seconds that the oldest wake has waited for its start and for its claim, for health. Null when none waits. */
export async function oldestWaits(db: Db): Promise<{ pendingSeconds: number | null; unclaimedSeconds: number | null }> {
  const [row] = await db.$queryRaw<{ pendingSeconds: number | null; unclaimedSeconds: number | null }[]>`
    SELECT (SELECT extract(epoch FROM clock_timestamp() - min(created_at))::float8 FROM wakes WHERE state = 'pending')
             AS "pendingSeconds",
           (SELECT extract(epoch FROM clock_timestamp() - min(delivered_at))::float8 FROM wakes
            WHERE state = 'delivered') AS "unclaimedSeconds"`;
  return row ?? { pendingSeconds: null, unclaimedSeconds: null };
}

type Suppressed = DueWake & { reason: SuppressedReason };

// One statement. The rooms' rows are locked in one order; under that lock each room's allowance is spent for as many of
// its wakes, oldest first, as it still pays for, and those of them that have a budget reserve of it on `day`. Returns the
// ids of the wakes to start.
async function lease(
  tx: SqlTx,
  open: readonly DueWake[],
  again: readonly DueWake[],
  day: string | null,
): Promise<Set<string>> {
  const wanted = open.map((wake, n) => ({
    id: wake.id,
    room_id: wake.roomId,
    n,
    ...(isBudgeted(wake) && { reserve: wake.tokensPerRun }),
  }));
  const leased = await tx.$queryRaw<{ id: string }[]>`
    WITH wanted AS (
      SELECT id, room_id, reserve, row_number() OVER (PARTITION BY room_id ORDER BY n) AS place
      FROM jsonb_to_recordset(${JSON.stringify(wanted)}::jsonb) AS x(id text, room_id text, n int, reserve bigint)
    ), locked AS (
      SELECT id, run_allowance FROM rooms WHERE id IN (SELECT room_id FROM wanted) ORDER BY id FOR NO KEY UPDATE
    ), paid AS (
      SELECT w.id, w.room_id, w.reserve FROM wanted w JOIN locked r ON r.id = w.room_id
      WHERE w.place <= r.run_allowance
    ), reserved AS (
      INSERT INTO token_reservations (agent_id, message_id, company_id, day, reserved)
      SELECT w.agent_id, w.message_id, w.company_id, ${day}::date, p.reserve
      FROM paid p JOIN wakes w ON w.id = p.id WHERE p.reserve IS NOT NULL
    ), spent AS (
      UPDATE rooms SET run_allowance = run_allowance - p.n
      FROM (SELECT room_id, count(*)::int AS n FROM paid GROUP BY room_id) p WHERE rooms.id = p.room_id
    )
    UPDATE wakes SET state = 'delivered', delivered_at = coalesce(delivered_at, clock_timestamp()),
                     due_at = clock_timestamp() + make_interval(secs => ${START_LEASE_SECONDS})
    WHERE id IN (SELECT id FROM paid) OR id = ANY(${again.map((wake) => wake.id)}::text[])
    RETURNING id`;
  return new Set(leased.map((wake) => wake.id));
}

// Locks the rooms of these wakes in the one order, and returns the allowance that each has left.
async function lockRooms(tx: SqlTx, wakes: readonly DueWake[]): Promise<Map<string, number>> {
  const rooms = await tx.$queryRaw<{ id: string; allowance: number }[]>`
    SELECT id, run_allowance AS allowance FROM rooms WHERE id = ANY(${wakes.map((wake) => wake.roomId)}::text[])
    ORDER BY id FOR NO KEY UPDATE`;
  return new Map(rooms.map((room) => [room.id, room.allowance]));
}

async function suppressWakes(tx: SqlTx, suppressed: readonly Suppressed[]): Promise<void> {
  if (suppressed.length === 0) return;
  const rows = JSON.stringify(suppressed.map(({ id, reason }) => ({ id, reason })));
  await tx.$executeRaw`
    UPDATE wakes SET state = 'suppressed', reason = x.reason
    FROM jsonb_to_recordset(${rows}::jsonb) AS x(id text, reason text) WHERE wakes.id = x.id`;
  const rooms = [...new Set(suppressed.map((wake) => wake.roomId))].sort();
  for (const roomId of rooms) {
    const draft = new RoomDraft(roomId);
    for (const wake of suppressed) if (wake.roomId === roomId) stageSuppressed(draft, wake);
    await draft.append(tx);
  }
}
