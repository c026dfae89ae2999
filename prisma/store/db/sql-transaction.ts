// The store's own SQL sent straight through `pg`, past Prisma, on the same pool: for what a run does. Every statement is
// prepared once per connection, so that Postgres plans it once and not at every call.
//
// Measured: a transaction of four small statements takes 0.4 ms this way and 3.5 ms through Prisma; planning alone was two
// thirds of Postgres's CPU for a run.

import type { Writable } from 'node:stream';
import pg from 'pg';
import { Prisma, type PrismaClient } from '../../generated/client';
import type { DirectTx, SqlTx } from './transaction';

/** More than the store has; a text beyond it is sent unprepared, so that no caller can fill the server's memory. */
const PREPARED_LIMIT = 300;

/** As Prisma reads them: int8 is a bigint. */
const TYPES = new pg.TypeOverrides();
TYPES.setTypeParser(pg.types.builtins.INT8, BigInt);

/**
 * Stands first in a statement of many shapes, or whose best plan depends on its values, as that of a search does. It is sent
 * unprepared, and planned each time.
 */
export const PLANNED_ANEW = Prisma.raw('/* planned anew */');

const names = new Map<string, string>();

/** Said to `$transaction`: `work` sends SQL of its own and uses no model. */
export class SqlOnly {
  /** What is left for this transaction, where that is less than the session's own time limits. */
  readonly limitMs: number | undefined;
  constructor(limitMs?: number) {
    this.limitMs = limitMs;
  }
}

const uncommitted = new WeakSet<object>();

/** Whether this failure came before COMMIT was sent: Postgres has not committed, and never will. */
export function isUncommitted(error: unknown): boolean {
  return typeof error === 'object' && error !== null && uncommitted.has(error);
}

/**
 * A Prisma client whose own SQL goes straight to the pool: outside of a transaction always, and in those that are opened
 * with `SqlOnly`.
 */
export function withDirectSql(prisma: PrismaClient, pool: pg.Pool): PrismaClient {
  const { $queryRaw, $executeRaw } = sqlOn(pool);
  const transact = (work: unknown, options?: unknown): unknown =>
    options instanceof SqlOnly
      ? runDirectly(pool, work as (tx: DirectTx) => Promise<unknown>, options.limitMs)
      : (prisma.$transaction as (...args: unknown[]) => unknown)(work, options);
  const own: Readonly<Record<string | symbol, unknown>> = { $queryRaw, $executeRaw, $transaction: transact };
  return new Proxy(prisma, {
    get: (target, name) => own[name] ?? (Reflect.get(target, name, target) as unknown),
  });
}

async function runDirectly<T>(
  pool: pg.Pool,
  work: (tx: DirectTx) => Promise<T>,
  limitMs: number | undefined,
): Promise<T> {
  const client = await pool.connect().catch((error: unknown) => {
    throw markUncommitted(error);
  });
  let lost: Error | undefined;
  let committing = false;
  // What nobody has waited for so far, in the order in which it was sent.
  const ahead: Promise<unknown>[] = [];
  const sendAhead = <R>(sent: Promise<R>): Promise<R> => {
    sent.catch(() => undefined);
    ahead.push(sent);
    return sent;
  };
  try {
    gatherWrites(client);
    void sendAhead(client.query('BEGIN'));
    if (limitMs !== undefined) await limitStatements(client, limitMs);
    const result = await work(directTxOn(client, sendAhead));
    committing = true;
    gatherWrites(client);
    // A transaction that failed inside is rolled back by COMMIT, without an error.
    const { command } = await client.query('COMMIT');
    if (command !== 'COMMIT') throw new Error('a statement failed and its error was swallowed');
    return result;
  } catch (error) {
    await client.query('ROLLBACK').catch((failure: Error) => (lost = failure));
    const cause = await firstRefusal(ahead);
    if (cause !== undefined) throw markUncommitted(cause);
    throw committing ? error : markUncommitted(error);
  } finally {
    client.release(lost);
  }
}

const gathering = new WeakSet<Writable>();

// What is sent until the event loop goes on leaves in one write. Measured: a write costs more than planning a statement.
function gatherWrites(client: pg.PoolClient): void {
  const { stream } = (client as pg.PoolClient & { readonly connection: { readonly stream: Writable } }).connection;
  if (gathering.has(stream)) return;
  gathering.add(stream);
  stream.cork();
  process.nextTick(() => {
    gathering.delete(stream);
    stream.uncork();
  });
}

// Of the statements that nobody waited for, the first that Postgres said no to: COMMIT came after it, and could only roll
// back. What is sent behind it fails too, and does not say why.
async function firstRefusal(ahead: readonly Promise<unknown>[]): Promise<unknown> {
  const outcomes = await Promise.allSettled(ahead);
  return outcomes.flatMap((each) =>
    each.status === 'rejected' && each.reason instanceof pg.DatabaseError ? [each.reason] : [],
  )[0];
}

function markUncommitted(error: unknown): unknown {
  if (typeof error === 'object' && error !== null) uncommitted.add(error);
  return error;
}

async function limitStatements(client: pg.PoolClient, limitMs: number): Promise<void> {
  const limit = String(Math.max(1, Math.floor(limitMs)));
  await client.query(
    `SELECT set_config(name, least(setting::int, $1::int)::text, true) FROM pg_settings
    WHERE name IN ('lock_timeout', 'statement_timeout') AND setting::int > 0`,
    [limit],
  );
}

function sqlOn(queryable: Pick<pg.Pool, 'query'> | pg.PoolClient): SqlTx {
  const tx = {
    $queryRaw: async (strings: TemplateStringsArray, ...values: unknown[]) =>
      (await send(queryable, strings, values)).rows,
    $executeRaw: async (strings: TemplateStringsArray, ...values: unknown[]) =>
      (await send(queryable, strings, values)).rowCount ?? 0,
  };
  return tx as unknown as SqlTx;
}

function directTxOn(client: pg.PoolClient, sendAhead: <R>(sent: Promise<R>) => Promise<R>): DirectTx {
  const sendRows = async (strings: TemplateStringsArray | Prisma.Sql, values: readonly unknown[]) =>
    (await send(client, strings, values)).rows;
  const sendPlain = (strings: TemplateStringsArray | Prisma.Sql, values: readonly unknown[]) => {
    // What `pg` could not write down would fail here, never reach Postgres, and COMMIT would go without it.
    if (!(strings instanceof Prisma.Sql ? strings.values : values).every(isPlain))
      throw new Error('a statement sent ahead takes plain values only');
    return sendRows(strings, values);
  };
  const $ahead = (strings: TemplateStringsArray | Prisma.Sql, ...values: unknown[]) => ({
    rows: sendAhead(sendPlain(strings, values)),
  });
  return { ...sqlOn(client), $ahead };
}

function isPlain(value: unknown): boolean {
  if (value instanceof Prisma.Sql) return value.values.every(isPlain);
  if (Array.isArray(value)) return value.every((each) => typeof each === 'string');
  return value === null || value === undefined || typeof value !== 'object' || value instanceof Date;
}

async function send(
  queryable: Pick<pg.Pool, 'query'> | pg.PoolClient,
  strings: TemplateStringsArray | Prisma.Sql,
  values: readonly unknown[],
): Promise<pg.QueryResult> {
  if ('connection' in queryable) gatherWrites(queryable);
  const { text, values: flat } = strings instanceof Prisma.Sql ? strings : Prisma.sql(strings, ...values);
  const name = nameOf(text);
  return queryable.query({ text, values: flat, types: TYPES, ...(name === undefined ? {} : { name }) });
}

function nameOf(text: string): string | undefined {
  if (text.startsWith(PLANNED_ANEW.sql)) return undefined;
  const known = names.get(text);
  if (known !== undefined) return known;
  if (names.size >= PREPARED_LIMIT) return undefined;
  const name = `s${names.size}`;
  names.set(text, name);
  return name;
}
