// Migrated databases that tests use one after the other. A new database with its connections and its Prisma client costs 0.2 s
// of CPU, an emptied one 1 ms: most tests need an empty database, and none needs one that was never used.
//
// A database is discarded instead, if a test changed its schema or left a session or a statement behind.

import { connectDatabase, type Database } from '../../prisma/client';
import { createTestDatabase } from './database';
import { isInJest, onTestsEnd } from './tests-end';

export interface ReusedDatabaseOptions {
  readonly poolSize: number;
  readonly lockTimeoutMs: number;
  readonly statementTimeoutMs: number;
  readonly transactionTimeoutMs: number;
}

export interface ReusedDatabase {
  readonly url: string;
  readonly database: Database;
  /** Gives the database back for another test. The caller must not use it afterwards. */
  release(): Promise<void>;
}

interface OpenDatabase {
  readonly url: string;
  readonly database: Database;
  /** The schema when the database was new. */
  readonly schema: string;
  discard(): Promise<void>;
}

/** How long a released database may take to finish its last statements. */
const IDLE_WITHIN_MS = 2_000;

/** Free databases, by their options. */
const free = new Map<string, OpenDatabase[]>();
let ended = !isInJest;

onTestsEnd(async () => {
  ended = true;
  for (const each of [...free.values()].flat()) await each.discard();
  free.clear();
});

/** A migrated database without rows, with the lock order checked. */
export async function openReusedDatabase(options: ReusedDatabaseOptions): Promise<ReusedDatabase> {
  const key = JSON.stringify(options);
  const open = free.get(key)?.pop() ?? (await openNew(options));
  let released: Promise<void> | undefined;
  const release = async (): Promise<void> => {
    const reusable = !ended && (await isIdle(open)) && (await empty(open).catch(() => false));
    if (!reusable) return open.discard();
    free.set(key, [...(free.get(key) ?? []), open]);
  };
  return { url: open.url, database: open.database, release: () => (released ??= release()) };
}

async function openNew(options: ReusedDatabaseOptions): Promise<OpenDatabase> {
  const test = await createTestDatabase({ migrated: true });
  const database = await connectDatabase(test.url, {
    ...options,
    applicationName: 'durable-room-test',
    checkLockOrder: true,
  });
  return {
    url: test.url,
    database,
    schema: await readSchema(database),
    discard: async () => {
      await database.close();
      await test.drop();
    },
  };
}

async function isIdle({ database: { pool } }: OpenDatabase): Promise<boolean> {
  for (const end = Date.now() + IDLE_WITHIN_MS; Date.now() < end;) {
    if (pool.waitingCount === 0 && pool.idleCount === pool.totalCount) return true;
    await new Promise((resolve) => setTimeout(resolve, 2));
  }
  return false;
}

/** Deletes every row, unless the test left the database with another schema or other sessions. */
async function empty({ database, schema }: OpenDatabase): Promise<boolean> {
  if ((await readSchema(database)) !== schema) return false;
  const { rows } = await database.pool.query<{ sessions: number }>(
    `SELECT count(*)::int AS sessions FROM pg_stat_activity
     WHERE datname = current_database() AND backend_type = 'client backend'`,
  );
  if ((rows[0]?.sessions ?? 0) > database.pool.totalCount) return false;
  // Without triggers: those of claims and of the audit refuse every deletion.
  await database.pool.query(`
    DO $$
    DECLARE name text;
    BEGIN
      SET LOCAL session_replication_role = replica;
      FOR name IN
        SELECT quote_ident(tablename) FROM pg_tables WHERE schemaname = 'public' AND tablename <> '_prisma_migrations'
      LOOP
        EXECUTE 'DELETE FROM ' || name;
      END LOOP;
    END $$`);
  return true;
}

/** Differs if a table, column, constraint, index, function, trigger or setting of the database was added, removed or changed. */
async function readSchema({ pool }: Database): Promise<string> {
  const { rows } = await pool.query<{ schema: string }>(`
    SELECT concat_ws(' ',
      (SELECT count(*) FROM pg_class WHERE relnamespace = 'public'::regnamespace),
      (SELECT count(*) FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid AND c.relnamespace = 'public'::regnamespace
       WHERE NOT attisdropped),
      (SELECT count(*) FROM pg_constraint WHERE connamespace = 'public'::regnamespace),
      (SELECT concat(count(*), '/', sum(length(prosrc))) FROM pg_proc WHERE pronamespace = 'public'::regnamespace),
      (SELECT concat(count(*), '/', sum(ascii(tgenabled::text))) FROM pg_trigger),
      (SELECT count(*) FROM pg_db_role_setting
       WHERE setdatabase = (SELECT oid FROM pg_database WHERE datname = current_database()))) AS schema`);
  return rows[0]?.schema ?? '';
}
