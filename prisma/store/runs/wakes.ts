// Wakes: the outbox. A guarded update delivers a wake before its workflow is started. When the start fails or the dispatcher
// dies, the wake is due again within seconds.
//
//   pending ──a free slot, gates, allowance, budget──▶ delivered ──claim──▶ claimed
//      └──a gate is closed──▶ suppressed (final)

import type { SuppressedReason } from '../../../workflows/contract';
import { Prisma } from '../../generated/client';
import { findOverBudget, IS_BUDGETED, isBudgeted, lockBudgets, type BudgetFacts } from '../eligibility/budgets';
import { RoomDraft, WAKES_CHANNEL } from '../rooms/room-draft';
import {
  deliveryReason,
  GATED_WAKES,
  MAY_BE_DELIVERED,
  REVOCATION_FACTS,
  type DeliveryFacts,
} from '../eligibility/gates';
import { stageSuppressed } from '../rooms/messages';
import { observe } from '../rooms/observations';
import type { Database } from '../db/database';
import { declareLock, forNoKeyUpdate } from '../db/lock-order';
import type { PipelineTx, SqlTx } from '../db/transaction';

/** A delivered wake, whose workflow a dispatcher starts. */
export interface DeliveredWake {
  readonly id: string;
  readonly agentId: string;
  readonly messageId: string;
  readonly roomId: string;
  readonly companyId: string;
  /** W3C trace context of the cause, or null without tracing. */
  readonly traceparent: string | null;
}

interface DueWake extends DeliveredWake, DeliveryFacts, BudgetFacts {
  readonly state: 'pending' | 'delivered';
}

/** How long a dispatcher has to start a workflow before another dispatcher may. */
const START_LEASE_SECONDS = 5;

/** The reconciler checks an unclaimed wake this long after its start. */
const UNCLAIMED_GRACE_SECONDS = 20;

/** The class of the dispatchers' advisory lock; budgets have another. */
const DELIVERY_LOCK = 7_306_111;

/** More than a company can have in flight: no limit. */
const NO_LIMIT = 2_147_483_647;

/**
 * Delivers up to `limit` pending wakes and returns the wakes whose workflows the caller starts now. They include wakes that
 * were delivered earlier and whose start was not acknowledged in time.
 *
 * A company has at most `companyLimit` runs in flight (delivered and not ended); its other wakes stay pending until a run
 * ends. The company with the fewest runs in flight is first, so that a wake waits only for wakes of its own company.
 * One transaction checks gates, spends the allowance, reserves budgets and writes `delivered`, before any workflow is
 * started. Each wake is leased to this caller for a few seconds.
 */
export async function deliverWakes(
  db: Database,
  limit: number,
  companyLimit: number = NO_LIMIT,
): Promise<DeliveredWake[]> {
  const due = await leaseSimple(db, limit, companyLimit);
  const leased = due.filter((wake) => wake.leased);
  if (leased.length === due.length) return leased;
  return [...leased, ...(await settle(db, limit, companyLimit))];
}

// Dispatchers deliver one after the other, each for a few milliseconds. Two dispatchers that count at the same time would
// fill the same slots and choose the same wakes. A separate statement: the next one reads what the last holder committed.
function waitForTurn(tx: PipelineTx): void {
  declareLock(tx, 'delivery');
  void tx.$pipeline`SELECT pg_advisory_xact_lock(${DELIVERY_LOCK}::int, 0)`;
}

// The fast path, for wakes whose gates are open and which have no budget: one statement. If one pending wake is not simple,
// none is leased here, so that a newer wake does not overtake an older wake with a budget.
async function leaseSimple(
  db: Database,
  limit: number,
  companyLimit: number,
): Promise<(DueWake & { leased: boolean })[]> {
  const { rows } = await db.sqlTransaction(async (tx) => {
    waitForTurn(tx);
    return tx.$pipeline<DueWake & { leased: boolean }>`
      WITH RECURSIVE ${dueWakes(tx, limit, companyLimit)}, wanted AS (
        SELECT id, "roomId" AS room_id, NULL::bigint AS reserve,
               row_number() OVER (PARTITION BY "roomId" ORDER BY turn, due_at) AS rank
        FROM due WHERE state = 'pending' AND (SELECT every(simple) FROM due WHERE state = 'pending')
      ), again AS (SELECT id FROM due WHERE state = 'delivered'),
      ${leasing(tx, null)}
      SELECT due.*, leased.id IS NOT NULL AS leased FROM due LEFT JOIN leased ON leased.id = due.id
      ORDER BY due.turn, due.due_at`;
  });
  return rows;
}

/** The slow path, for due wakes of which some are not simple: leases the wakes that may start and suppresses the others. */
async function settle(db: Database, limit: number, companyLimit: number): Promise<DueWake[]> {
  return db.sqlTransaction(async (tx) => {
    waitForTurn(tx);
    const due = await tx.$queryRaw<DueWake[]>`
      WITH RECURSIVE ${dueWakes(tx, limit, companyLimit)} SELECT * FROM due ORDER BY turn, due_at`;
    if (due.length === 0) return [];
    const pending = due.filter((wake) => wake.state === 'pending');
    const suppressed = pending.flatMap((wake): Suppressed[] => {
      const reason = deliveryReason(wake);
      return reason === null ? [] : [{ ...wake, reason }];
    });
    const open = pending.filter((wake) => !suppressed.some((each) => each.id === wake.id));
    const budgeted = open.filter(isBudgeted);
    const today = budgeted.length > 0 ? await lockBudgets(tx, budgeted) : null;
    // A suppression also writes to a room: all rooms are locked first, in the order of their ids.
    const allowances = suppressed.length > 0 || today !== null ? await lockRooms(tx, pending) : null;
    const over = today && allowances ? findOverBudget(open, allowances, today) : null;
    const within = over ? open.filter((wake) => !over.has(wake.id)) : open;
    const again = due.filter((wake) => wake.state === 'delivered');
    const leased = await leaseThese(tx, within, again, today?.day ?? null);
    const unpaid = open.filter((wake) => !leased.has(wake.id));
    await suppressWakes(tx, [
      ...suppressed,
      ...unpaid.map((wake) => ({ ...wake, reason: over?.has(wake.id) ? ('budget' as const) : ('allowance' as const) })),
    ]);
    return due.filter((wake) => leased.has(wake.id));
  });
}

/** Records that Temporal acknowledged these starts. "Already started" is an acknowledgement. */
export async function markStarted(db: Database, wakeIds: readonly string[]): Promise<void> {
  await db.$executeRaw`
    UPDATE wakes SET started_at = clock_ms(),
                     due_at = clock_ms() + make_interval(secs => ${UNCLAIMED_GRACE_SECONDS})
    WHERE id = ANY(${[...wakeIds]}::text[]) AND started_at IS NULL`;
}

/** Wakes that were started and not claimed in time, each leased to this caller until the reconciler's next check. */
export async function takeUnclaimedWakes(
  db: Database,
  limit: number,
  leaseSeconds: number,
): Promise<(DeliveredWake & { ageSeconds: number })[]> {
  return db.$queryRaw<(DeliveredWake & { ageSeconds: number })[]>`
    UPDATE wakes SET due_at = clock_ms() + make_interval(secs => ${leaseSeconds})
    WHERE id IN (
      SELECT id FROM wakes
      WHERE state = 'delivered' AND started_at IS NOT NULL AND due_at <= clock_ms()
      ORDER BY due_at LIMIT ${limit} FOR NO KEY UPDATE SKIP LOCKED
    )
    RETURNING id, agent_id AS "agentId", message_id AS "messageId", room_id AS "roomId", company_id AS "companyId",
              traceparent, extract(epoch FROM clock_ms() - delivered_at)::float8 AS "ageSeconds"`;
}

/** Makes a delivered wake due for a new start: Temporal no longer has its workflow. */
export async function startAgain(db: Database, wakeId: string): Promise<void> {
  await db.$executeRaw`
    UPDATE wakes SET started_at = NULL, due_at = clock_ms() WHERE id = ${wakeId} AND state = 'delivered'`;
}

/** The waiting times of the oldest pending wake and the oldest unclaimed wake, in seconds. Null without such a wake. */
export async function oldestWaits(
  db: Database,
): Promise<{ pendingSeconds: number | null; unclaimedSeconds: number | null }> {
  const [row] = await db.$queryRaw<{ pendingSeconds: number | null; unclaimedSeconds: number | null }[]>`
    SELECT (SELECT extract(epoch FROM clock_ms() - min(created_at))::float8 FROM wakes WHERE state = 'pending')
             AS "pendingSeconds",
           (SELECT extract(epoch FROM clock_ms() - min(delivered_at))::float8 FROM wakes
            WHERE state = 'delivered') AS "unclaimedSeconds"`;
  return row ?? { pendingSeconds: null, unclaimedSeconds: null };
}

// The locked wakes of one pass, as a list of CTEs that ends in `due`. Companies with pending wakes are found by index steps,
// one read per company, and their runs in flight by two counts of at most `companyLimit` rows. The cost does not depend on
// the number of wakes that wait for a slot.
function dueWakes(tx: SqlTx, limit: number, companyLimit: number): Prisma.Sql {
  return Prisma.sql`
    waiting AS (
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
      SELECT w.id, flight.runs + w.nth AS turn, w.due_at
      FROM flight CROSS JOIN LATERAL (
        SELECT p.id, p.due_at, row_number() OVER (ORDER BY p.due_at, p.id) AS nth FROM (
          SELECT id, due_at FROM wakes
          WHERE state = 'pending' AND company_id = flight.company_id AND due_at <= clock_ms()
          ORDER BY due_at, id LIMIT least(greatest(${companyLimit}::int - flight.runs, 0), ${limit}::int)) AS p
      ) AS w
      UNION ALL
      SELECT id, 0, due_at FROM wakes
      WHERE state = 'delivered' AND started_at IS NULL AND due_at <= clock_ms()
      ORDER BY turn, due_at LIMIT ${limit}::int
    ), due AS MATERIALIZED (
      SELECT w.id, w.agent_id AS "agentId", w.message_id AS "messageId", w.room_id AS "roomId",
             w.company_id AS "companyId", w.traceparent, w.state, w.hop, r.hop_limit AS "hopLimit", ${REVOCATION_FACTS},
             a.tokens_per_day AS "agentTokensPerDay", c.tokens_per_day AS "companyTokensPerDay",
             a.tokens_per_run AS "tokensPerRun",
             -- Every gate is open and no budget applies. The lease checks the room's allowance when it spends it.
             (${MAY_BE_DELIVERED} AND NOT ${IS_BUDGETED}) AS simple,
             next.turn, next.due_at
      FROM next JOIN (${GATED_WAKES}) ON w.id = next.id
      WHERE (w.state = 'pending' OR w.state = 'delivered') AND w.started_at IS NULL
      ORDER BY next.turn, next.due_at
      ${forNoKeyUpdate(tx, { wake: 'w' })} SKIP LOCKED
    )`;
}

type Suppressed = DueWake & { reason: SuppressedReason };

// Leases the wakes of the CTEs `wanted` (new starts) and `again` (repeated starts), as a list of CTEs that ends in `leased`.
// The rooms' rows are locked in the order of their ids. Each room's allowance pays for its oldest wakes, and a wake with a
// budget reserves its tokens on `day`.
function leasing(tx: SqlTx, day: string | null): Prisma.Sql {
  return Prisma.sql`
    locked AS (
      SELECT id, run_allowance FROM rooms WHERE id IN (SELECT room_id FROM wanted) ORDER BY id
      ${forNoKeyUpdate(tx, 'room')}
    ), paid AS (
      SELECT w.id, w.room_id, w.reserve FROM wanted w JOIN locked r ON r.id = w.room_id
      WHERE w.rank <= r.run_allowance
    ), reserved AS (
      INSERT INTO token_reservations (agent_id, message_id, company_id, day, reserved)
      SELECT w.agent_id, w.message_id, w.company_id, ${day}::date, p.reserve
      FROM paid p JOIN wakes w ON w.id = p.id WHERE p.reserve IS NOT NULL
    ), spent AS (
      UPDATE rooms SET run_allowance = run_allowance - p.n
      FROM (SELECT room_id, count(*)::int AS n FROM paid GROUP BY room_id) p WHERE rooms.id = p.room_id
    ), leased AS (
      UPDATE wakes SET state = 'delivered', delivered_at = coalesce(delivered_at, clock_ms()),
                       due_at = clock_ms() + make_interval(secs => ${START_LEASE_SECONDS})
      WHERE id IN (SELECT id FROM paid UNION ALL SELECT id FROM again)
      RETURNING id
    )`;
}

/** Leases these wakes as far as their rooms' allowances pay for them, and returns the ids of the leased wakes. */
async function leaseThese(
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
      SELECT id, room_id, reserve, row_number() OVER (PARTITION BY room_id ORDER BY n) AS rank
      FROM jsonb_to_recordset(${JSON.stringify(wanted)}::jsonb) AS x(id text, room_id text, n int, reserve bigint)
    ), again AS (SELECT unnest(${again.map((wake) => wake.id)}::text[]) AS id),
    ${leasing(tx, day)}
    SELECT id FROM leased`;
  return new Set(leased.map((row) => row.id));
}

// Locks the rooms of these wakes in the order of their ids, and returns the allowance that each has left.
async function lockRooms(tx: SqlTx, wakes: readonly DueWake[]): Promise<Map<string, number>> {
  const rooms = await tx.$queryRaw<{ id: string; allowance: number }[]>`
    SELECT id, run_allowance AS allowance FROM rooms WHERE id = ANY(${wakes.map((wake) => wake.roomId)}::text[])
    ORDER BY id ${forNoKeyUpdate(tx, 'room')}`;
  return new Map(rooms.map((room) => [room.id, room.allowance]));
}

async function suppressWakes(tx: SqlTx, suppressed: readonly Suppressed[]): Promise<void> {
  if (suppressed.length === 0) return;
  const rows = JSON.stringify(suppressed.map(({ id, reason }) => ({ id, reason })));
  // In this pass, a suppressed wake took a slot of its company without a run: dispatchers are notified to run again at once.
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
