// What a failure of Postgres, `pg` or Prisma means for the caller: retry, wait, or a bug.

import { Transient } from './errors';

/** Wraps a failure that came before COMMIT was sent: Postgres has not committed, and never will. */
export class Uncommitted extends Error {
  override readonly name = 'Uncommitted';
  constructor(cause: unknown) {
    super('the transaction failed before its COMMIT was sent', { cause });
  }
}

/** SQLSTATEs after which Postgres itself has rolled back: deadlock and serialization failure. */
const ROLLED_BACK = new Set(['40P01', '40001']);

/** SQLSTATE classes and codes that pass with time: connection, shutdown, too many connections, our own timeouts. */
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

/** Runs one read or one single-statement write. Its failures are translated as those of a transaction are. */
export async function inStatement<T>(work: Promise<T>): Promise<T> {
  try {
    return await work;
  } catch (error) {
    throw translateError(error, false);
  }
}

/** Whether Postgres rolled the transaction back, so that it may run again at once. */
export function isRolledBack(error: unknown): boolean {
  return ROLLED_BACK.has(sqlStateOf(error) ?? '');
}

/** `Transient` for a failure that passes with time, and the error itself for any other. */
export function translateError(error: unknown, uncommitted: boolean): unknown {
  // Not `instanceof Error`: an error of another realm (a test runner's) is an error too.
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

/** The SQLSTATE inside an error of Prisma or pg, at any depth at which the adapter wrapped it. */
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

/** The name of the constraint that an error broke, if Postgres names it. */
export function constraintOf(error: unknown): string | undefined {
  for (const layer of layersOf(error)) {
    const constraint = layer['constraint'];
    if (typeof constraint === 'string') return constraint;
    if (constraint && typeof constraint === 'object' && 'index' in constraint) return String(constraint.index);
    if (constraint && typeof constraint === 'object' && 'fields' in constraint) return String(constraint.fields);
  }
  return undefined;
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
