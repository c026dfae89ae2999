// Budgets: tokens per UTC day, of an agent and of its company. The delivery of a wake reserves the tokens that its run
// may use, and the end of the run settles the tokens that it used. Both are in one row per wake, and the count of a day
// is the sum of its rows, so there is no counter that could drift. Only dispatchers wait for a budget.
//
//   delivered ──▶ reserved: tokens_per_run ──the run ends──▶ settled: the tokens used, or the reservation if unknown

import { Prisma } from '../../generated/client';
import { exactCount, IS_UNCOUNTED } from './request-usage';
import { declareLock } from '../db/lock-order';
import type { Reader, SqlTx } from '../db/transaction';

/** The budgets of a wake's agent and company for a day, and the most tokens that its run is expected to use. */
export interface BudgetFacts {
  readonly agentTokensPerDay: bigint | null;
  readonly companyTokensPerDay: bigint | null;
  readonly tokensPerRun: number;
}

interface BudgetedWake extends BudgetFacts {
  readonly id: string;
  readonly agentId: string;
  readonly companyId: string;
  readonly roomId: string;
}

/** The tokens that count on one day so far. */
export interface DayCount {
  /** `YYYY-MM-DD`, UTC, by Postgres' clock. */
  readonly day: string;
  /** By agent and by company. */
  readonly counted: ReadonlyMap<string, bigint>;
}

/** Tokens that a run reserves if its agent has no setting. The default of the column is the same. */
export const TOKENS_PER_RUN_DEFAULT = 50_000;
/** The largest setting of an agent. */
export const TOKENS_PER_RUN_MAX = 1_000_000_000;
/** The largest budget, in tokens. */
export const TOKENS_PER_DAY_MAX = 1_000_000_000_000_000;

/** The class of the advisory locks of budgets, different from every other class. */
const BUDGET_LOCK = 7_306_110;

/**
 * A condition on an agent `a` of company `c`: the tokens used today leave too few for one more run. Open runs may
 * settle less than they reserved, so only dispatchers count reservations. Reads no rows if there is no budget.
 */
export const IS_USED_UP = Prisma.sql`(
  CASE WHEN a.tokens_per_day IS NULL THEN false ELSE a.tokens_per_run > a.tokens_per_day - (
    SELECT coalesce(sum(t.settled), 0) FROM token_reservations t
    WHERE t.agent_id = a.id AND t.day = (clock_ms() AT TIME ZONE 'UTC')::date) END
  OR CASE WHEN c.tokens_per_day IS NULL THEN false ELSE a.tokens_per_run > c.tokens_per_day - (
    SELECT coalesce(sum(t.settled), 0) FROM token_reservations t
    WHERE t.company_id = c.id AND t.day = (clock_ms() AT TIME ZONE 'UTC')::date) END)`;

/** Whether a wake reserves tokens: its agent or its company has a budget. */
export function isBudgeted(wake: BudgetFacts): boolean {
  return wake.agentTokensPerDay !== null || wake.companyTokensPerDay !== null;
}

/** `isBudgeted`, as a condition on an agent `a` of company `c`. A test compares both. */
export const IS_BUDGETED = Prisma.sql`(a.tokens_per_day IS NOT NULL OR c.tokens_per_day IS NOT NULL)`;

/**
 * Locks the budgets of these wakes until the transaction ends, and then reads the tokens that count against each today.
 *
 * The lock comes between wake and room in the lock order. Only dispatchers take it: the end of a run settles its own
 * row. The lock of a company covers the budgets of its agents.
 */
export async function lockBudgets(tx: SqlTx, wakes: readonly BudgetedWake[]): Promise<DayCount> {
  const [agents, companies] = [wakes.map((wake) => wake.agentId), wakes.map((wake) => wake.companyId)];
  declareLock(tx, 'budget');
  await tx.$queryRaw`
    SELECT pg_advisory_xact_lock(${BUDGET_LOCK}::int, key)::text
    FROM (SELECT DISTINCT hashtext(id) AS key FROM unnest(${companies}::text[]) AS id ORDER BY key) AS keys`;
  const rows = await tx.$queryRaw<{ day: string; id: string; counted: string }[]>`
    WITH today AS MATERIALIZED (SELECT (clock_ms() AT TIME ZONE 'UTC')::date AS day)
    SELECT today.day::text, o.id, coalesce(sum(coalesce(t.settled, t.reserved)), 0)::text AS counted
    FROM today CROSS JOIN (SELECT DISTINCT id FROM unnest(${agents}::text[]) AS id) AS o
    LEFT JOIN token_reservations t ON t.agent_id = o.id AND t.day = today.day
    GROUP BY today.day, o.id
    UNION ALL
    SELECT today.day::text, o.id, coalesce(sum(coalesce(t.settled, t.reserved)), 0)::text
    FROM today CROSS JOIN (SELECT DISTINCT id FROM unnest(${companies}::text[]) AS id) AS o
    LEFT JOIN token_reservations t ON t.company_id = o.id AND t.day = today.day
    GROUP BY today.day, o.id`;
  const day = rows[0]?.day;
  if (day === undefined) throw new Error('budgets are locked for at least one wake');
  return { day, counted: new Map(rows.map((row) => [row.id, BigInt(row.counted)])) };
}

/**
 * The ids of the wakes that are over budget; older wakes reserve first.
 *
 * A wake for which its room has no allowance reserves nothing and is not over budget.
 */
export function findOverBudget(
  wakes: readonly BudgetedWake[],
  allowances: ReadonlyMap<string, number>,
  { counted }: Pick<DayCount, 'counted'>,
): Set<string> {
  const over = new Set<string>();
  const left = new Map(allowances);
  const used = new Map(counted);
  for (const wake of wakes) {
    const allowance = left.get(wake.roomId) ?? 0;
    if (allowance < 1) continue;
    const fits = (owner: string, limit: bigint | null): boolean =>
      limit === null || (used.get(owner) ?? 0n) + BigInt(wake.tokensPerRun) <= limit;
    if (!fits(wake.agentId, wake.agentTokensPerDay) || !fits(wake.companyId, wake.companyTokensPerDay)) {
      over.add(wake.id);
      continue;
    }
    left.set(wake.roomId, allowance - 1);
    if (!isBudgeted(wake)) continue;
    for (const owner of [wake.agentId, wake.companyId]) {
      used.set(owner, (used.get(owner) ?? 0n) + BigInt(wake.tokensPerRun));
    }
  }
  return over;
}

/**
 * Settles the reservation of a run, once and on the day of the reservation: the tokens that its requests used, and at
 * least the whole reservation if a request has tokens that no answer counted. Without a reservation, it changes
 * nothing.
 *
 * A part of the statement that closes the run. The caller holds the lock of the run's row.
 */
export function settlement(run: { id: string; agentId: string; messageId: string }): Prisma.Sql {
  return Prisma.sql`
      UPDATE token_reservations SET settled_at = clock_ms(), settled = (
        SELECT greatest(coalesce(sum(coalesce(input_tokens, 0) + coalesce(output_tokens, 0)), 0),
                        CASE WHEN bool_or(${IS_UNCOUNTED}) THEN reserved ELSE 0 END)
        FROM model_requests WHERE run_id = ${run.id})
      WHERE agent_id = ${run.agentId} AND message_id = ${run.messageId} AND settled IS NULL`;
}

/** The tokens that count against a budget today, or null if there is no budget. */
export async function loadBudgetToday(
  reader: Reader,
  owner: 'agent_id' | 'company_id',
  id: string,
  tokensPerDay: bigint | null,
): Promise<Record<string, unknown> | null> {
  if (tokensPerDay === null) return null;
  const [row] = await reader.$queryRaw<{ day: string; settled: string; reserved: string }[]>`
    WITH today AS MATERIALIZED (SELECT (clock_ms() AT TIME ZONE 'UTC')::date AS day)
    SELECT today.day::text, coalesce(sum(t.settled), 0)::text AS settled,
           coalesce(sum(t.reserved) FILTER (WHERE t.settled IS NULL), 0)::text AS reserved
    FROM today LEFT JOIN token_reservations t ON t.day = today.day AND t.${Prisma.raw(owner)} = ${id}
    GROUP BY today.day`;
  if (!row) throw new Error('today has no row');
  const [settled, reserved] = [BigInt(row.settled), BigInt(row.reserved)];
  const left = tokensPerDay - settled - reserved;
  return {
    day: row.day,
    tokens_per_day: Number(tokensPerDay),
    settled: exactCount(settled),
    reserved: exactCount(reserved),
    left: left > 0n ? exactCount(left) : 0,
  };
}
