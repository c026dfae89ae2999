// One pool of connections to Postgres, under Prisma and under the store's own SQL alike, and the time limits that hold
// for every statement sent through it. Migrating is migrate.ts'; what is sent is store/*'s.

import { PrismaPg } from '@prisma/adapter-pg';
import pg from 'pg';
import {
  addSessionSettings,
  errorCode,
  explainConnectionFailure,
  parseDatabaseUrl,
  refuseOldServer,
} from './database-url';
import { PrismaClient } from './generated/client';
import { withDirectSql } from './store/db/sql-transaction';

export interface DatabaseOptions {
  readonly poolSize: number;
  readonly statementTimeoutMs: number;
  readonly lockTimeoutMs: number;
  /** Also how long a transaction may sit idle, and how long a caller waits for a free connection: one transaction ahead of it. */
  readonly transactionTimeoutMs: number;
  /** What `pg_stat_activity` shows. */
  readonly applicationName: string;
}

export interface Database {
  readonly prisma: PrismaClient;
  readonly pool: pg.Pool;
  /** Waits for what is running, then closes every connection. Idempotent. */
  close(): Promise<void>;
}

/** The first server that has `transaction_timeout`; an older one refuses a session that asks for it. */
const TRANSACTION_TIMEOUT_SINCE = 170000;
/** What a server's own timeout gets to reach us before a silent connection is given up. */
const SILENCE_GRACE_MS = 5_000;
/** A TCP probe after this much quiet, so that an idle connection whose server vanished is noticed. */
const KEEP_ALIVE_AFTER_MS = 10_000;
/** Long enough to survive the pauses of a working day's traffic: a new connection costs the server a process. */
const IDLE_CONNECTION_MS = 60_000;

/**
 * Connects once, so that a wrong URL or an old server fails here, and then keeps a pool that outlives restarts of the
 * server: what was running fails, what comes after connects anew. Throws DatabaseUnavailable.
 */
export async function connectDatabase(url: string, options: DatabaseOptions): Promise<Database> {
  const database = parseDatabaseUrl(url);
  const version = await readServerVersion(url, options);
  refuseOldServer(database, version);

  const pool = new pg.Pool({
    connectionString: addSessionSettings(url, {
      // Prisma's adapter reads a timestamptz by cutting its offset off: right in UTC, hours wrong in any other session.
      timezone: 'UTC',
      datestyle: 'ISO',
      statement_timeout: options.statementTimeoutMs,
      lock_timeout: options.lockTimeoutMs,
      idle_in_transaction_session_timeout: options.transactionTimeoutMs,
      ...(version >= TRANSACTION_TIMEOUT_SINCE && { transaction_timeout: options.transactionTimeoutMs }),
    }),
    application_name: options.applicationName,
    max: options.poolSize,
    connectionTimeoutMillis: options.transactionTimeoutMs,
    idleTimeoutMillis: IDLE_CONNECTION_MS,
    keepAlive: true,
    keepAliveInitialDelayMillis: KEEP_ALIVE_AFTER_MS,
    query_timeout: options.statementTimeoutMs + SILENCE_GRACE_MS,
    // Statements that need nothing from each other are sent in one go; Postgres still runs them one after the other.
    pipeline: true,
  });
  // A connection that ends takes itself out of the pool; whoever was using it gets the error from its query. An event
  // that nobody hears would end the process.
  pool.on('error', () => undefined);
  pool.on('connect', (client) => {
    client.on('error', () => undefined);
    dropWhenLost(client);
  });

  const prisma = new PrismaClient({
    adapter: new PrismaPg(pool),
    transactionOptions: { maxWait: options.transactionTimeoutMs, timeout: options.transactionTimeoutMs },
  });

  let closing: Promise<void> | undefined;
  return {
    prisma: withDirectSql(prisma, pool),
    pool,
    close: () => (closing ??= closeBoth(prisma, pool)),
  };
}

async function closeBoth(prisma: PrismaClient, pool: pg.Pool): Promise<void> {
  try {
    await prisma.$disconnect();
  } finally {
    await pool.end();
  }
}

async function readServerVersion(url: string, options: DatabaseOptions): Promise<number> {
  const client = new pg.Client({
    connectionString: url,
    application_name: options.applicationName,
    connectionTimeoutMillis: options.transactionTimeoutMs,
    query_timeout: options.statementTimeoutMs + SILENCE_GRACE_MS,
  });
  client.on('error', () => undefined);
  try {
    await client.connect();
    const { rows } = await client.query<{ version: number }>(
      `SELECT current_setting('server_version_num')::int AS version`,
    );
    return rows[0]?.version ?? 0;
  } catch (error) {
    throw explainConnectionFailure(parseDatabaseUrl(url), error);
  } finally {
    await client.end().catch(() => undefined);
  }
}

/**
 * Ends a connection as soon as a query on it tells that it is lost. `pg` only fails the query, and whoever gives the
 * connection back without an error (Prisma does) would leave it in the pool, to fail one caller after the other.
 */
function dropWhenLost(client: pg.PoolClient): void {
  const query = client.query.bind(client) as (...args: unknown[]) => unknown;
  const watched = (...args: unknown[]): unknown => {
    const answer = query(...args);
    if (answer instanceof Promise) {
      answer.catch((error: unknown) => {
        // With a query unanswered, `end` does not wait for the server: it closes the socket.
        if (tellsOfLoss(error)) void (client as pg.PoolClient & pg.Client).end().catch(() => undefined);
      });
    }
    return answer;
  };
  client.query = watched as typeof client.query;
}

function tellsOfLoss(error: unknown): boolean {
  // `query_timeout`: past the server's own timeout, silence means that the server is gone.
  if (error instanceof Error && error.message === 'Query read timeout') return true;
  // Told in time that the session ends: by an operator or a shutdown (57P), or by a timeout of the transaction (25P).
  return /^(08...|57P..|25P03|25P04)$/.test(errorCode(error) ?? '');
}
