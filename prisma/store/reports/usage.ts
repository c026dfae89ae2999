// The usage of runs in a window of time, for a room, an agent or a company. A company sees all usage of its own runs.
// Of other companies it sees only the number and endings of their runs, and the wakes that the feed shows.

import { ENDINGS, type SuppressedReason } from '../../../workflows/contract';
import { Prisma } from '../../generated/client';
import { costOf, type ModelUse, type PriceTable } from '../../../workflows/policy/prices';
import { publicReason } from '../eligibility/gates';
import { exactCount, isUncounted, IS_UNCOUNTED, type RequestUse } from '../eligibility/request-usage';
import type { Reader } from '../db/transaction';
import { runTime } from '../access/viewer';

/** Bounds of the time of a run for the viewer (`runTime`), or of the creation of a wake; `until` is excluded. */
export interface UsageWindow {
  readonly since: Date;
  readonly until: Date;
  /** False: `until` is now, and no row is excluded as too new. */
  readonly bounded: boolean;
}

export type UsageScope =
  | { readonly room: string }
  /** An agent of the viewing company. */
  | { readonly agent: string }
  | { readonly company: string };

interface RunCount {
  readonly own: boolean;
  readonly ending: string | null;
  readonly n: number;
}

interface SuppressedCount {
  readonly own: boolean;
  readonly reason: SuppressedReason;
  readonly n: number;
}

interface RequestCount {
  readonly model: string | null;
  readonly outcome: string;
  readonly n: number;
  readonly counted: number;
  readonly uncounted: number;
  /** Text, because the sum may exceed an exact JSON number. */
  readonly input: string;
  readonly output: string;
}

interface Counts {
  readonly runs: readonly RunCount[];
  readonly suppressed: readonly SuppressedCount[];
  readonly requests: readonly RequestCount[];
}

/** The requested window, by Postgres' clock. Default: the last 24 hours. */
export async function loadWindow(
  reader: Reader,
  since: Date | undefined,
  until: Date | undefined,
): Promise<UsageWindow> {
  const [window] = await reader.$queryRaw<{ since: Date; until: Date }[]>`
    SELECT coalesce(${since ?? null}::timestamptz, x.until - interval '24 hours') AS since, x.until
    FROM (SELECT coalesce(${until ?? null}::timestamptz, clock_ms()) AS until) AS x`;
  if (!window) throw new Error('no clock');
  return { ...window, bounded: until !== undefined };
}

/** The usage of a room, as one of its companies may see it. */
export async function loadRoomUsage(
  reader: Reader,
  companyId: string,
  roomId: string,
  window: UsageWindow,
  prices: PriceTable,
): Promise<Record<string, unknown>> {
  const counts = await count(reader, companyId, { room: roomId }, window);
  return {
    room: roomId,
    ...windowResource(window),
    runs: runsResource(counts.runs),
    wakes_suppressed: suppressedResource(counts.suppressed),
    own: ownResource(counts, prices),
  };
}

/** The usage of an agent or a company in all its rooms, for the company itself. */
export async function loadOwnUsage(
  reader: Reader,
  companyId: string,
  scope: Exclude<UsageScope, { room: string }>,
  window: UsageWindow,
  prices: PriceTable,
): Promise<Record<string, unknown>> {
  const counts = await count(reader, companyId, scope, window);
  return { ...scope, ...windowResource(window), ...ownResource(counts, prices) };
}

/** The usage of one run's requests, for its own company. */
export function runUsage(
  run: { readonly model: string | null; readonly requests: readonly RequestUse[] },
  prices: PriceTable,
): Record<string, unknown> {
  const uncounted = run.requests.filter(isUncounted).length;
  const counted = run.requests.filter((each) => each.inputTokens !== null && each.outputTokens !== null).length;
  const sum = (tokens: (request: RequestUse) => bigint | null): bigint =>
    run.requests.reduce((all, request) => all + (tokens(request) ?? 0n), 0n);
  const use = {
    model: run.model,
    counted,
    uncounted,
    inputTokens: sum((request) => request.inputTokens),
    outputTokens: sum((request) => request.outputTokens),
  };
  return { requests: run.requests.length, ...tokensResource([use]), money: costOf([use], prices) };
}

// One statement, so that all numbers are of the same moment.
async function count(reader: Reader, companyId: string, scope: UsageScope, window: UsageWindow): Promise<Counts> {
  const within = (at: Prisma.Sql): Prisma.Sql =>
    window.bounded
      ? Prisma.sql`${at} >= ${window.since} AND ${at} < ${window.until}`
      : Prisma.sql`${at} >= ${window.since}`;
  // A run is claimed after its message was written, so the claim is never earlier than `runTime`: the index can use it.
  const runsWithin =
    'room' in scope
      ? Prisma.sql`t.claimed_at >= ${window.since} AND ${within(runTime(companyId))}`
      : within(Prisma.sql`t.claimed_at`);
  const [row] = await reader.$queryRaw<Counts[]>`
    WITH these AS MATERIALIZED (
      SELECT t.id, t.ending, t.model, t.company_id = ${companyId} AS own
      FROM runs t WHERE ${scopeOf(companyId, scope)} AND ${runsWithin}
    )
    SELECT
      (SELECT coalesce(jsonb_agg(x), '[]') FROM (
         SELECT own, ending, count(*) AS n FROM these GROUP BY own, ending) AS x) AS runs,
      (SELECT coalesce(jsonb_agg(x), '[]') FROM (
         SELECT t.company_id = ${companyId} AS own, t.reason, count(*) AS n
         FROM wakes t
         WHERE ${scopeOf(companyId, scope)} AND t.state = 'suppressed' AND ${within(Prisma.sql`t.created_at`)}
         GROUP BY own, t.reason) AS x) AS suppressed,
      (SELECT coalesce(jsonb_agg(x), '[]') FROM (
         SELECT these.model, outcome, count(*) AS n,
                count(*) FILTER (WHERE input_tokens IS NOT NULL AND output_tokens IS NOT NULL) AS counted,
                count(*) FILTER (WHERE ${IS_UNCOUNTED}) AS uncounted,
                coalesce(sum(input_tokens), 0)::text AS input, coalesce(sum(output_tokens), 0)::text AS output
         FROM these JOIN model_requests ON run_id = these.id WHERE these.own
         GROUP BY these.model, outcome) AS x) AS requests`;
  if (!row) throw new Error('a count has one row');
  return row;
}

function scopeOf(companyId: string, scope: UsageScope): Prisma.Sql {
  if ('room' in scope) return Prisma.sql`t.room_id = ${scope.room}`;
  if ('agent' in scope) return Prisma.sql`t.agent_id = ${scope.agent} AND t.company_id = ${companyId}`;
  return Prisma.sql`t.company_id = ${scope.company} AND t.company_id = ${companyId}`;
}

function windowResource({ since, until }: UsageWindow): Record<string, unknown> {
  return { since: since.toISOString(), until: until.toISOString() };
}

function ownResource(counts: Counts, prices: PriceTable): Record<string, unknown> {
  const uses = counts.requests.map((each) => ({
    model: each.model,
    counted: each.counted,
    uncounted: each.uncounted,
    inputTokens: BigInt(each.input),
    outputTokens: BigInt(each.output),
  }));
  return {
    runs: runsResource(counts.runs.filter((each) => each.own)),
    wakes_suppressed: suppressedResource(counts.suppressed.filter((each) => each.own)),
    requests: {
      total: total(counts.requests),
      outcomes: tally(counts.requests.map(({ outcome, n }) => [outcome, n])),
    },
    tokens: tokensResource(uses),
    money: costOf(uses, prices),
  };
}

function runsResource(runs: readonly RunCount[]): Record<string, unknown> {
  const ended = ENDINGS.flatMap((ending): [string, number][] => {
    const n = total(runs.filter((each) => each.ending === ending));
    return n === 0 ? [] : [[ending, n]];
  });
  return {
    total: total(runs),
    open: total(runs.filter((each) => each.ending === null)),
    endings: Object.fromEntries(ended),
  };
}

function suppressedResource(suppressed: readonly SuppressedCount[]): Record<string, unknown> {
  const reasons = suppressed.map(({ own, reason, n }): [string, number] => [own ? reason : publicReason(reason), n]);
  return { total: total(suppressed), reasons: tally(reasons) };
}

function tokensResource(uses: readonly ModelUse[]): Record<string, unknown> {
  const sum = (of: (use: ModelUse) => bigint): bigint => uses.reduce((all, use) => all + of(use), 0n);
  return {
    input_tokens: exactCount(sum((use) => use.inputTokens)),
    output_tokens: exactCount(sum((use) => use.outputTokens)),
    uncounted_requests: uses.reduce((all, use) => all + use.uncounted, 0),
  };
}

function total(counts: readonly { readonly n: number }[]): number {
  return counts.reduce((all, { n }) => all + n, 0);
}

function tally(counts: readonly (readonly [string, number])[]): Record<string, number> {
  const by = new Map<string, number>();
  for (const [name, n] of counts) by.set(name, (by.get(name) ?? 0) + n);
  return Object.fromEntries(by);
}
