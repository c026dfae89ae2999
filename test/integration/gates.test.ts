// The gates as SQL and as TypeScript, compared for every combination of the columns that they read. The fast paths of claim
// and dispatch rely on the SQL alone.

import { IS_BUDGETED, isBudgeted, type BudgetFacts } from '../../prisma/store/eligibility/budgets';
import {
  deliveryReason,
  MAY_BE_CLAIMED,
  MAY_BE_DELIVERED,
  REVOCATION_FACTS,
  revocationReason,
  type DeliveryFacts,
} from '../../prisma/store/eligibility/gates';
import { Prisma } from '../../prisma/generated/client';
import { createWorld, type World } from '../support/world';

let world: World;

beforeAll(async () => {
  world = await createWorld({ modelUrl: 'http://127.0.0.1:9/v1' });
});
afterAll(() => world.close());

/** The columns of one combination, as Postgres returns them. */
interface Columns {
  readonly roomClosedAt: Date | null;
  readonly roomPausedAt: Date | null;
  readonly leftAt: Date | null;
  readonly removedAt: Date | null;
  readonly agentPausedAt: Date | null;
  readonly suspendedAt: Date | null;
  /** False: the agent has no key. */
  readonly hasKey: boolean;
  readonly revokedAt: Date | null;
  readonly rejectedVersion: number | null;
  readonly version: number;
}

interface Row extends Columns, DeliveryFacts, BudgetFacts {
  readonly mayBeClaimed: boolean;
  readonly mayBeDelivered: boolean;
  readonly isBudgeted: boolean;
}

const TIMES = Prisma.sql`(VALUES (NULL::timestamptz), (clock_timestamp()))`;
const BUDGETS = Prisma.sql`(VALUES (NULL::bigint), (1000::bigint))`;

/** A key with two versions; the provider refused none of them, the older one, or the newest one. */
const KEYS = Prisma.sql`
  (SELECT ids.id, times.at, rejected.version, 2
   FROM (VALUES (NULL::text), ('mk')) AS ids(id), ${TIMES} AS times(at),
        (VALUES (NULL::int), (1), (2)) AS rejected(version))`;

/** 2^6 times in the rows of a wake, 12 keys, 3 hops, and 4 budgets. */
const COMBINATIONS = 64 * 12 * 3 * 4;

test('every combination has the same answer in SQL and in TypeScript', async () => {
  const rows = await world.db.$queryRaw<Row[]>`
    SELECT r.closed_at AS "roomClosedAt", r.paused_at AS "roomPausedAt", m.left_at AS "leftAt",
           ra.removed_at AS "removedAt", a.paused_at AS "agentPausedAt", c.suspended_at AS "suspendedAt",
           k.id IS NOT NULL AS "hasKey", k.revoked_at AS "revokedAt", k.rejected_version AS "rejectedVersion", k.version,
           w.hop, r.hop_limit AS "hopLimit", ${REVOCATION_FACTS},
           a.tokens_per_day AS "agentTokensPerDay", c.tokens_per_day AS "companyTokensPerDay", 1 AS "tokensPerRun",
           ${MAY_BE_CLAIMED} AS "mayBeClaimed", ${MAY_BE_DELIVERED} AS "mayBeDelivered", ${IS_BUDGETED} AS "isBudgeted"
    FROM (VALUES (7), (8), (9)) AS w(hop)
    CROSS JOIN (SELECT closed.at, paused.at, 8 FROM ${TIMES} AS closed(at), ${TIMES} AS paused(at))
      AS r(closed_at, paused_at, hop_limit)
    CROSS JOIN (SELECT paused.at, budget.tokens FROM ${TIMES} AS paused(at), ${BUDGETS} AS budget(tokens))
      AS a(paused_at, tokens_per_day)
    CROSS JOIN (SELECT suspended.at, budget.tokens FROM ${TIMES} AS suspended(at), ${BUDGETS} AS budget(tokens))
      AS c(suspended_at, tokens_per_day)
    CROSS JOIN ${TIMES} AS m(left_at)
    CROSS JOIN ${TIMES} AS ra(removed_at)
    CROSS JOIN ${KEYS} AS k(id, revoked_at, rejected_version, version)`;
  expect(rows).toHaveLength(COMBINATIONS);

  const wrong = rows.filter(
    (row) =>
      row.mayBeClaimed !== (revocationReason(row) === null) ||
      row.mayBeDelivered !== (deliveryReason(row) === null) ||
      row.isBudgeted !== isBudgeted(row),
  );
  expect(wrong).toEqual([]);

  const misread = rows.filter(
    (row) =>
      row.roomClosed !== (row.roomClosedAt !== null) ||
      row.roomPaused !== (row.roomPausedAt !== null) ||
      row.isMember !== (row.leftAt === null) ||
      row.onRoster !== (row.removedAt === null) ||
      row.agentPaused !== (row.agentPausedAt !== null) ||
      row.companySuspended !== (row.suspendedAt !== null) ||
      row.keyRejected !== (!row.hasKey || row.revokedAt !== null || row.rejectedVersion === row.version),
  );
  expect(misread).toEqual([]);

  // The combinations include rows that may be claimed, and rows for each gate that stops a claim.
  expect([...new Set(rows.map((row) => deliveryReason(row) ?? 'open'))].sort()).toEqual([
    'hop_limit',
    'key_rejected',
    'not_a_member',
    'open',
    'paused',
    'room_closed',
    'suspended',
  ]);
});
