// Wakes: the outbox. A wake is delivered by a guarded update before its workflow is started; a start that fails or
// whose dispatcher dies is due again within seconds.
//
//   pending ──a place, gates, allowance, budget──▶ delivered ──claim──▶ claimed
//      └──a gate is shut──▶ suppressed (final)

import type { SuppressedReason } from '../../workflows/contract';
import { findOverBudget, isBudgeted, lockBudgets, type BudgetFacts } from './budgets';
import { RoomDraft, WAKES_CHANNEL } from './draft';
import { shutGate, type GateFacts } from './gates';
import { stageSuppressed } from './messages';
import { observe } from './observations';
import { inSqlTransaction, type Ahead, type Db, type DirectTx, type SqlTx } from './transaction';

/** A wake whose workflow is to be started. */
export interface DeliveredWake {
  readonly id: string;
  readonly agentId: string;
  readonly messageId: string;
  readonly roomId: string;
  readonly companyId: string;
  /** W3C trace context of what caused it, or null where nobody traces. */
  readonly traceparent: string | null;
}

interface DueWake extends DeliveredWake, Omit<GateFacts, 'allowance' | 'budgetUsedUp'>, BudgetFacts {
  readonly state: 'pending' | 'delivered';
}

/** How long a dispatcher has for starting a workflow before the wake is due for another. */
const START_LEASE_SECONDS = 5;

/** How long after its start a wake that nobody claimed is looked at by the reconciler. */
const UNCLAIMED_GRACE_SECONDS = 20;

/** The class of the dispatchers' advisory lock, apart from that of budgets. */
const DELIVERY_LOCK = 7_306_111;

/** More than a company can have in flight: no cap. */
const NO_CAP = 2_147_483_647;

/**
 * Delivers up to `limit` pending wakes and returns those whose workflow is to be started now, with those delivered
 * earlier whose start was not acknowledged in time.
 *
 * A company has at most `companyLimit` runs in flight (delivered and not ended); its other wakes stay pending until one
 * ends. Companies take turns, the one with the fewest in flight first, so that a wake waits for its own company's only.
 * Gates are checked, the allowance is spent, budgets are reserved and `delivered` is written in one transaction, before
 * anything is started; each wake is leased to this caller for a few seconds.
 */
export async function deliverWakes(db: Db, limit: number, companyLimit: number = NO_CAP): Promise<DeliveredWake[]> {
  const { due, leased, isSettled } = await takeAndLease(db, limit, companyLimit, 'ahead');
  const delivered = await deliveredOf(due, leased);
  if (isSettled(delivered.length)) return delivered;
  const again = await takeAndLease(db, limit, companyLimit, 'settling');
  return [...delivered, ...(await deliveredOf(again.due, again.leased))];
}

type Leased = Ahead<{ id: string }>;

async function deliveredOf(due: readonly DueWake[], leased: Leased | null): Promise<DeliveredWake[]> {
  const ids = new Set((await leased?.rows)?.map((row) => row.id));
  return due.filter((wake) => ids.has(wake.id));
}

interface Pass {
  readonly due: readonly DueWake[];
  readonly leased: Leased | null;
  /** Whether none is left over that a room's allowance did not pay for, when so many were leased. */
  readonly isSettled: (leased: number) => boolean;
}

// `ahead`: commits without waiting for what the lease came to. Most rooms can pay, and a trip is saved; wakes that were not
// paid for stay pending, for a pass that is `settling` and suppresses them in its own transaction.
async function takeAndLease(db: Db, limit: number, companyLimit: number, manner: 'ahead' | 'settling'): Promise<Pass> {
  return inSqlTransaction(db, async (tx): Promise<Pass> => {
    // Dispatchers deliver one after the other, for a few milliseconds: two that count at the same time would both fill the
    // same places, and choose the same wakes. Sent together with the statement that counts, which so reads what the one
    // before has committed.
    const locking = tx.$executeRaw`SELECT pg_advisory_xact_lock(${DELIVERY_LOCK}::int, 0)`;
    const [, due] = await Promise.all([locking, takeDueWakes(tx, limit, companyLimit)]);
    if (due.length === 0) return { due, leased: null, isSettled: () => true };
    const pending = due.filter((wake) => wake.state === 'pending');
    const suppressed = pending.flatMap((wake): Suppressed[] => {
      const reason = shutGate({ ...wake, allowance: 1, budgetUsedUp: false });
      return reason === null ? [] : [{ ...wake, reason }];
    });
    const open = pending.filter((wake) => !suppressed.some((shut) => shut.id === wake.id));
    const again = due.filter((wake) => wake.state === 'delivered');
    const budgeted = open.filter(isBudgeted);
    if (manner === 'ahead' && suppressed.length === 0 && budgeted.length === 0) {
      const leased = lease(tx, open, again, null);
      return { due, leased, isSettled: (count) => count === due.length };
    }
    const today = budgeted.length > 0 ? await lockBudgets(tx, budgeted) : null;
    // Suppressing writes into rooms too: all of them are then locked at once, in the one order, before any is written to.
    const allowances = suppressed.length > 0 || today !== null ? await lockRooms(tx, pending) : null;
    const over = today && allowances ? findOverBudget(open, allowances, today) : null;
    const within = over ? open.filter((wake) => !over.has(wake.id)) : open;
    const leased = lease(tx, within, again, today?.day ?? null);
    const paid = new Set((await leased.rows).map((row) => row.id));
    const unpaid = open.filter((wake) => !paid.has(wake.id));
    await suppressWakes(tx, [
      ...suppressed,
      ...unpaid.map((wake) => ({ ...wake, reason: over?.has(wake.id) ? ('budget' as const) : ('allowance' as const) })),
    ]);
    return { due, leased, isSettled: () => true };
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
              traceparent, extract(epoch FROM clock_timestamp() - delivered_at)::float8 AS "ageSeconds"`;
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

// Which companies have pending wakes is found by stepping over the index, one look a company; how many runs each has in
// flight, by two counts of at most `companyLimit` rows. A thousand wakes that wait for a place cost nothing here.
function takeDueWakes(tx: SqlTx, limit: number, companyLimit: number): Promise<DueWake[]> {
  return tx.$queryRaw<DueWake[]>`
    WITH RECURSIVE waiting AS (
      (SELECT company_id FROM wakes WHERE state = 'pending' ORDER BY company_id LIMIT 1)
      UNION ALL
      SELECT (SELECT w.company_id FROM wakes w WHERE w.state = 'pending' AND w.company_id > waiting.company_id
              ORDER BY w.company_id LIMIT 1)
      FROM waiting WHERE waiting.company_id IS NOT NULL
    ), flight AS MATERIALIZED (
      SELECT company_id,
             (SELECT count(*) FROM (SELECT FROM wakes d WHERE d.company_id = waiting.company_id AND d.state = 'delivered'
                                    LIMIT ${companyLimit}::int) AS delivered)
             + (SELECT count(*) FROM (SELECT FROM runs r WHERE r.company_id = waiting.company_id AND r.state = 'open'
                                        AND r.parked_at IS NULL
                                      LIMIT ${companyLimit}::int) AS open) AS runs
      FROM waiting WHERE company_id IS NOT NULL
    ), next AS MATERIALIZED (
      SELECT w.id, flight.runs + w.place AS turn, w.due_at
      FROM flight CROSS JOIN LATERAL (
        SELECT p.id, p.due_at, row_number() OVER (ORDER BY p.due_at, p.id) AS place FROM (
          SELECT id, due_at FROM wakes
          WHERE state = 'pending' AND company_id = flight.company_id AND due_at <= clock_timestamp()
          ORDER BY due_at, id LIMIT least(greatest(${companyLimit}::int - flight.runs, 0), ${limit}::int)) AS p
      ) AS w
      UNION ALL
      SELECT id, 0, due_at FROM wakes
      WHERE state = 'delivered' AND started_at IS NULL AND due_at <= clock_timestamp()
      ORDER BY turn, due_at LIMIT ${limit}::int
    )
    SELECT w.id, w.agent_id AS "agentId", w.message_id AS "messageId", w.room_id AS "roomId",
           w.company_id AS "companyId", w.traceparent, w.state, w.hop, r.hop_limit AS "hopLimit",
           r.closed_at IS NOT NULL AS "roomClosed", r.paused_at IS NOT NULL AS "roomPaused",
           m.left_at IS NULL AS "isMember", ra.removed_at IS NULL AS "onRoster",
           a.paused_at IS NOT NULL AS "agentPaused", c.suspended_at IS NOT NULL AS "companySuspended",
           (k.id IS NULL OR k.revoked_at IS NOT NULL OR k.rejected_version IS NOT DISTINCT FROM k.version)
             AS "keyRejected",
           a.tokens_per_day AS "agentTokensPerDay", c.tokens_per_day AS "companyTokensPerDay",
           a.tokens_per_run AS "tokensPerRun"
    FROM next
    JOIN wakes w ON w.id = next.id
    JOIN rooms r ON r.id = w.room_id
    JOIN agents a ON a.id = w.agent_id
    JOIN companies c ON c.id = w.company_id
    JOIN room_members m ON m.room_id = w.room_id AND m.company_id = w.company_id
    JOIN room_agents ra ON ra.room_id = w.room_id AND ra.agent_id = w.agent_id
    LEFT JOIN model_keys k ON k.id = a.model_key_id
    WHERE (w.state = 'pending' OR w.state = 'delivered') AND w.started_at IS NULL
    ORDER BY next.turn, next.due_at
    FOR NO KEY UPDATE OF w SKIP LOCKED`;
}

type Suppressed = DueWake & { reason: SuppressedReason };

// One statement. The rooms' rows are locked in one order; under that lock each room's allowance is spent for as many of
// its wakes, oldest first, as it still pays for, and those of them that have a budget reserve of it on `day`. Returns the
// ids of the wakes to start.
function lease(tx: DirectTx, open: readonly DueWake[], again: readonly DueWake[], day: string | null): Leased {
  const wanted = open.map((wake, n) => ({
    id: wake.id,
    room_id: wake.roomId,
    n,
    ...(isBudgeted(wake) && { reserve: wake.tokensPerRun }),
  }));
  return tx.$ahead`
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
  // These took their company's places of this pass and use none: dispatchers look again at once for those behind them.
  await tx.$executeRaw`
    UPDATE wakes SET state = 'suppressed', reason = x.reason
    FROM jsonb_to_recordset(${rows}::jsonb) AS x(id text, reason text) WHERE wakes.id = x.id
    RETURNING pg_notify(${WAKES_CHANNEL}, '')::text`;
  const rooms = [...new Set(suppressed.map((wake) => wake.roomId))].sort();
  for (const roomId of rooms) {
    const draft = new RoomDraft(roomId);
    for (const wake of suppressed) if (wake.roomId === roomId) stageSuppressed(draft, wake);
    await draft.append(tx);
  }
  for (const { reason } of suppressed) observe({ kind: 'wake_suppressed', reason });
}
