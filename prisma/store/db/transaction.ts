// One transaction, and what its failures mean. Every write of the store runs in one of these.

import type { Prisma, PrismaClient } from '../../generated/client';
import { Transient } from './errors';
import { tellNews } from './notifications';
import { isUncommitted, SqlOnly } from './sql-transaction';

export type Db = PrismaClient;
export type Tx = Prisma.TransactionClient;
/**
 * What the store's own SQL needs of a transaction. Prisma's transactions have it too, so what takes one of these runs in
 * either kind.
 */
export type SqlTx = Pick<Tx, '$queryRaw' | '$executeRaw'>;
/** A transaction of `inSqlTransaction`. */
export interface DirectTx extends SqlTx {
  /**
   * Sends a statement that nobody waits for: what comes next, or COMMIT, travels right behind it, and its failure fails the
   * transaction. Its rows may be awaited after the transaction; they are then committed.
   */
  $ahead<T>(strings: TemplateStringsArray | Prisma.Sql, ...values: readonly unknown[]): Ahead<T>;
}
export interface Ahead<T> {
  readonly rows: Promise<T[]>;
}

/** Sends a statement whose answer nobody reads: ahead, in a transaction that can. */
export function write(tx: SqlTx | DirectTx) {
  return async (strings: TemplateStringsArray, ...values: readonly unknown[]): Promise<void> => {
    if ('$ahead' in tx) tx.$ahead(strings, ...values);
    else await tx.$executeRaw(strings, ...values);
  };
}

/** Where a read runs: in the caller's transaction, or on its own. */
export type Reader = PrismaClient | Tx;

/** How often a deadlock or a serialisation failure is tried again. Locks have one order, so even one is rare. */
const ROLLED_BACK_TRIES = 5;

/** Pauses before what did not commit is tried again: short, and growing, since whoever waits makes the queue longer. */
const AGAIN_MS = 25;
const AGAIN_MAX_MS = 500;

/** Known not to have committed: Postgres itself rolled it back. */
const ROLLED_BACK = new Set(['40P01', '40001']);

/** SQLSTATE classes and codes that time may mend: connection, shutdown, too many connections, our own timeouts. */
const TRANSIENT_STATES = /^(08|57P0|53[0-9]|55P03|57014|25P0[234]|58)/;

/** Codes of the driver and of Prisma that mean the same. P2028: the transaction ran out of time or was lost. */
const TRANSIENT_CODES = new Set([
  'ECONNREFUSED',
  'ECONNRESET',
  'EPIPE',
  'ETIMEDOUT',
  'ENOTFOUND',
  'EAI_AGAIN',
  'P1001',
  'P1002',
  'P1008',
  'P1017',
  'P2024',
  'P2028',
]);

/** Kinds of the adapter's own errors that mean the same: at BEGIN and COMMIT, Prisma passes these on without a code. */
const TRANSIENT_KINDS = new Set(['ConnectionClosed', 'DatabaseNotReachable', 'SocketTimeout', 'TooManyConnections']);

const TRANSIENT_TEXTS =
  /Connection terminated|timeout exceeded when trying to connect|Client has encountered a connection error|server closed the connection|Can't reach database server|the database system is|not queryable/i;

/**
 * Runs `work` in one transaction and returns what it returned.
 *
 * `work` may run more than once: a deadlock or serialisation failure, which Postgres rolled back, is tried again here.
 * @throws Transient when Postgres did not answer (the outcome is then unknown), or whatever `work` threw.
 */
export async function inTransaction<T>(db: Db, work: (tx: Tx) => Promise<T>): Promise<T> {
  return retried(db, work, (told) => db.$transaction(told));
}

/**
 * As `inTransaction`, for the hot path: `work` sends SQL of the store's own and nothing else.
 *
 * Until `giveUpAt` (epoch ms), whatever kept it from sending its COMMIT is waited out here: no free connection, a lock held
 * too long, a server that is away. None of these has committed. For callers that get one attempt.
 */
export async function inSqlTransaction<T>(db: Db, work: (tx: DirectTx) => Promise<T>, giveUpAt = 0): Promise<T> {
  for (let attempt = 1; ; attempt += 1) {
    const limitMs = attempt === 1 ? undefined : giveUpAt - Date.now();
    try {
      return await retried(db, work, (told) =>
        db.$transaction((tx) => told(tx as SqlTx as DirectTx), new SqlOnly(limitMs) as object),
      );
    } catch (error) {
      const pauseMs = Math.min(AGAIN_MAX_MS, AGAIN_MS * 2 ** attempt) * (0.5 + Math.random() / 2);
      const outlasts = Date.now() + pauseMs < giveUpAt;
      if (!(error instanceof Transient && error.uncommitted && outlasts)) throw error;
      await new Promise((resolve) => setTimeout(resolve, pauseMs));
    }
  }
}

async function retried<T, X extends SqlTx>(
  db: Db,
  work: (tx: X) => Promise<T>,
  run: (told: (tx: X) => Promise<T>) => Promise<T>,
): Promise<T> {
  for (let attempt = 1; ; attempt += 1) {
    let committed: X | undefined;
    try {
      const result = await run((tx) => work((committed = tx)));
      tellNews(db, committed);
      return result;
    } catch (error) {
      if (attempt < ROLLED_BACK_TRIES && ROLLED_BACK.has(sqlStateOf(error) ?? '')) continue;
      throw translate(error);
    }
  }
}

/** Runs one read or one single-statement write, its failures translated as `inTransaction` does. */
export async function inStatement<T>(work: Promise<T>): Promise<T> {
  try {
    return await work;
  } catch (error) {
    throw translate(error);
  }
}

/** The SQLSTATE inside an error of Prisma or pg, however deep the adapter wrapped it. */
export function sqlStateOf(error: unknown): string | undefined {
  for (const layer of layersOf(error)) {
    for (const field of ['originalCode', 'sqlState', 'code']) {
      const value = layer[field];
      if (typeof value === 'string' && /^[0-9A-Z]{5}$/.test(value) && !/^P\d{4}$/.test(value)) return value;
    }
    if (layer['code'] === 'P2034') return '40001';
  }
  return undefined;
}

/** The name of the constraint that an error broke, if Postgres told. */
export function constraintOf(error: unknown): string | undefined {
  for (const layer of layersOf(error)) {
    const constraint = layer['constraint'];
    if (typeof constraint === 'string') return constraint;
    if (constraint && typeof constraint === 'object' && 'index' in constraint) return String(constraint.index);
    if (constraint && typeof constraint === 'object' && 'fields' in constraint) return String(constraint.fields);
  }
  return undefined;
}

function translate(error: unknown): unknown {
  const uncommitted = isUncommitted(error);
  // Not `instanceof Error`: an error of another realm (a test runner's) is one too.
  const state = sqlStateOf(error);
  if (state !== undefined && (ROLLED_BACK.has(state) || TRANSIENT_STATES.test(state))) {
    return new Transient(`Postgres could not finish (${state})`, uncommitted);
  }
  for (const layer of layersOf(error)) {
    const code = layer['code'];
    if (typeof code === 'string' && TRANSIENT_CODES.has(code))
      return new Transient(`Postgres did not answer (${code})`, uncommitted);
    const kind = layer['kind'];
    if (typeof kind === 'string' && TRANSIENT_KINDS.has(kind))
      return new Transient(`Postgres did not answer (${kind})`, uncommitted);
    const message = layer['message'];
    if (typeof message === 'string' && TRANSIENT_TEXTS.test(message))
      return new Transient('Postgres did not answer', uncommitted);
  }
  return error;
}

function* layersOf(error: unknown): Generator<Record<string, unknown>> {
  const open: unknown[] = [error];
  for (let seen = 0; open.length > 0 && seen < 12; seen += 1) {
    const layer = open.shift();
    if (!layer || typeof layer !== 'object') continue;
    const record = layer as Record<string, unknown>;
    yield record;
    open.push(record['cause'], record['meta'], record['driverAdapterError']);
  }
}
