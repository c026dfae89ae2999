// Connects to Postgres: one pool under Prisma and under the store's own SQL, and the time limits of every statement.
// Migrations are in migrate.ts, statements in store/*.

import { PrismaPg } from '@prisma/adapter-pg';
import pg from 'pg';
import { addSessionSettings, explainConnectionFailure, parseDatabaseUrl, refuseOldServer } from './database-url';
import { PrismaClient } from './generated/client';
import { endWhenLost } from './lost-connections';
import { Database } from './store/db/database';
import { PreparedStatements } from './store/db/prepared-statements';

export type { Database } from './store/db/database';

export interface DatabaseOptions {
  readonly poolSize: number;
  readonly statementTimeoutMs: number;
  readonly lockTimeoutMs: number;
  /** Also how long a transaction may be idle, and how long a caller waits for a free connection: one transaction ahead of it. */
  readonly transactionTimeoutMs: number;
  /** What `pg_stat_activity` shows. */
  readonly applicationName: string;
  /** Makes a transaction throw when it takes a lock out of order. For tests; off by default. */
  readonly checkLockOrder?: boolean;
}

/** The first server that has `transaction_timeout`; an older one refuses a session that asks for it. */
const TRANSACTION_TIMEOUT_SINCE = 170000;
/** How long after the server's own timeout a silent connection is given up. */
const SILENCE_GRACE_MS = 5_000;
/** A TCP probe after this much silence finds an idle connection whose server is gone. */
const KEEP_ALIVE_AFTER_MS = 10_000;
/** Longer than the pauses of normal traffic: a new connection costs the server a process. */
const IDLE_CONNECTION_MS = 60_000;

/**
 * Connects once, so that a wrong URL or an old server fails here, and then keeps a pool that survives restarts of the
 * server: statements that were running fail, later ones connect again. Throws DatabaseUnavailable.
 */
export async function connectDatabase(url: string, options: DatabaseOptions): Promise<Database> {
  const database = parseDatabaseUrl(url);
  const version = await readServerVersion(url, options);
  refuseOldServer(database, version);

  const pool = new pg.Pool({
    connectionString: addSessionSettings(url, {
      // Prisma's adapter drops the offset of a timestamptz: correct in UTC, hours wrong in any other session.
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
    // A statement is sent before the one ahead of it is answered; Postgres still runs them one after the other.
    pipeline: true,
  });
  // A connection that ends leaves the pool, and its user gets the error from the query. An `error` event without a
  // listener would end the process.
  pool.on('error', () => undefined);
  pool.on('connect', (client) => {
    client.on('error', () => undefined);
    endWhenLost(client);
  });

  const prisma = new PrismaClient({
    adapter: new PrismaPg(pool),
    transactionOptions: { maxWait: options.transactionTimeoutMs, timeout: options.transactionTimeoutMs },
  });

  return new Database({
    prisma,
    pool,
    statements: new PreparedStatements(),
    checkLockOrder: options.checkLockOrder ?? false,
  });
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
