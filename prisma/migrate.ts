// Brings a database up to this code's migrations, with Prisma's own schema engine as WebAssembly: no binary to download,
// no CLI, and `_prisma_migrations` stays as `prisma migrate deploy` would write it. Next is client.ts, which expects it done.

import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { MigrationList, SchemaEngine } from '@prisma/schema-engine-wasm/schema_engine_bg';
import pg from 'pg';
import {
  addSessionSettings,
  CONNECT_TIMEOUT_MS,
  type DatabaseUrl,
  DatabaseUnavailable,
  explainConnectionFailure,
  parseDatabaseUrl,
  refuseOldServer,
} from './database-url';
import { openSchemaEngine, type SchemaEngineSession } from './schema-engine';

/** The advisory lock under which a database is migrated. The number is arbitrary and must never change. */
const MIGRATION_LOCK = '7306082713414557';
/** The lock that Prisma's engine holds while it applies, `prisma migrate deploy` included. */
const PRISMA_LOCK = '72707369';
/** How long a waiting process lets pass between two tries for the lock. */
const LOCK_RETRY_MS = 200;
/** How often a waiting process logs that it still waits. */
const LOCK_REMINDER_MS = 15_000;

export type MigrationProblem =
  /** The database holds migrations that this code does not know. */
  | 'newer'
  /** An earlier try began a migration that is not one transaction: how much of it was kept is unknown. */
  | 'unfinished'
  /** The database refused a migration, and nothing of it remains. */
  | 'failed'
  /** The database holds tables, but none of them are ours. */
  | 'not_empty'
  /** Anything else: the connection was lost, or the role may not create tables. */
  | 'interrupted';

export class MigrationError extends Error {
  override readonly name = 'MigrationError';
  readonly problem: MigrationProblem;
  constructor(problem: MigrationProblem, message: string) {
    super(message);
    this.problem = problem;
  }
}

export interface MigrateOptions {
  readonly log?: (line: string) => void;
  /** The folder of the migrations; default: this project's own. Tests set it. */
  readonly migrationsDir?: string;
}

/**
 * Applies every migration that the database lacks, in order, and returns their names. Many processes may run it at once: one
 * applies the migrations, and the others wait and then find nothing to do. Throws DatabaseUnavailable if the database cannot
 * be used at all, MigrationError if it cannot be migrated.
 */
export async function migrateDatabase(
  databaseUrl: string,
  options: MigrateOptions = {},
): Promise<{ applied: string[] }> {
  const database = parseDatabaseUrl(databaseUrl);
  const log = options.log ?? (() => undefined);
  const migrations = readMigrations(options.migrationsDir ?? join(findPrismaDir(), 'migrations'));
  const lock = await openLockSession(database);
  try {
    await takeMigrationLock(lock, log);
    return { applied: await applyMissing(database, migrations, log) };
  } finally {
    // The end of the session releases the lock, also if this process dies.
    await lock.end().catch(() => undefined);
  }
}

/**
 * This project's `prisma` folder: beside this file in the source tree, or above it if this file is the compiled
 * `dist/prisma/migrate.js`, because `tsc` copies no SQL.
 */
export function findPrismaDir(): string {
  for (let dir = __dirname; ; dir = dirname(dir)) {
    for (const candidate of [dir, join(dir, 'prisma')]) {
      if (existsSync(join(candidate, 'migrations', 'migration_lock.toml'))) return candidate;
    }
    if (dirname(dir) === dir) throw new Error(`No folder prisma/migrations in or above ${__dirname}`);
  }
}

function readMigrations(baseDir: string): MigrationList {
  const names = readdirSync(baseDir, { withFileTypes: true })
    .filter((entry) => entry.isDirectory())
    .map((entry) => entry.name)
    .sort();
  return {
    baseDir,
    lockfile: {
      path: 'migration_lock.toml',
      content: readFileSync(join(baseDir, 'migration_lock.toml'), 'utf8'),
    },
    shadowDbInitScript: '',
    migrationDirectories: names.map((name) => ({
      path: name,
      migrationFile: {
        path: 'migration.sql',
        content: { tag: 'ok', value: readFileSync(join(baseDir, name, 'migration.sql'), 'utf8') },
      },
    })),
  };
}

/** Opens a separate session for the lock, which must be held during all statements and transactions of the engine. */
async function openLockSession(database: DatabaseUrl): Promise<pg.Client> {
  const lock = new pg.Client({
    connectionString: addSessionSettings(database.url, { statement_timeout: 0, idle_session_timeout: 0 }),
    application_name: 'durable-room migrate',
    connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
    keepAlive: true,
  });
  // Without a listener, a lost connection would end the process. The engine's own connection is then lost too, or ends.
  lock.on('error', () => undefined);
  try {
    await lock.connect();
    const { rows } = await lock.query<{ version: number }>(
      `SELECT current_setting('server_version_num')::int AS version`,
    );
    refuseOldServer(database, rows[0]?.version ?? 0);
    return lock;
  } catch (error) {
    await lock.end().catch(() => undefined);
    throw error instanceof DatabaseUnavailable ? error : explainConnectionFailure(database, error);
  }
}

/**
 * Tries and sleeps instead of waiting in Postgres: a session that waits there holds a snapshot. A migration that creates an
 * index concurrently would wait for that session, which waits for the migration.
 *
 * Also waits until Prisma's lock is free. The engine takes it itself and gives up after ten seconds. Another tool may hold
 * it, or a killed process whose last script Postgres still executes.
 */
async function takeMigrationLock(lock: pg.Client, log: (line: string) => void): Promise<void> {
  for (const number of [MIGRATION_LOCK, PRISMA_LOCK]) {
    for (let waitedMs = 0; !(await tryLock(lock, number)); waitedMs += LOCK_RETRY_MS) {
      if (waitedMs % LOCK_REMINDER_MS === 0) log('Another process is migrating the database; waiting for it');
      await sleep(LOCK_RETRY_MS);
    }
  }
  await lock.query('SELECT pg_advisory_unlock($1::bigint)', [PRISMA_LOCK]);
}

async function tryLock(session: pg.Client, number: string): Promise<boolean> {
  const { rows } = await session.query<{ taken: boolean }>('SELECT pg_try_advisory_lock($1::bigint) AS taken', [
    number,
  ]);
  return rows[0]?.taken === true;
}

async function applyMissing(
  database: DatabaseUrl,
  migrationsList: MigrationList,
  log: (line: string) => void,
): Promise<string[]> {
  const session = await openSchemaEngine(database.url, { completeScript: (sql) => recordEnd(sql, migrationsList) });
  const { engine } = session;
  const filters = { externalTables: [], externalEnums: [] };
  const diagnose = () => engine.diagnoseMigrationHistory({ migrationsList, optInToShadowDatabase: false, filters });
  try {
    const before = await diagnose();
    if (before.history !== null && before.history.diagnostic !== 'databaseIsBehind') {
      const unknown = before.history.unpersistedMigrationNames.join(', ');
      throw new MigrationError(
        'newer',
        `The database ${database.label} holds migrations that this code does not know (${unknown}): newer code, or ` +
          'another branch, migrated it. Start the code that belongs to it',
      );
    }
    for (const name of before.failedMigrationNames) {
      refuseUnknownEnd(database, name, migrationsList);
      await engine.markMigrationRolledBack({ migrationName: name });
      log(`Migration ${name} was begun and stopped before; nothing of it was kept, so it is tried again`);
    }
    for (const name of before.editedMigrationNames) {
      log(
        `Migration ${name} was applied with another text than its file has now; an applied migration is never edited`,
      );
    }

    const { appliedMigrationNames } = await engine.applyMigrations({ migrationsList, filters });
    for (const name of appliedMigrationNames) log(`Applied migration ${name}`);
    return appliedMigrationNames;
  } catch (error) {
    if (error instanceof MigrationError) throw error;
    throw await explainEngineFailure(database, error, session, diagnose);
  } finally {
    await session.close();
  }
}

/** Whether a script's statements are one transaction. An index created concurrently can't be in one. */
function isOneTransaction(sql: string): boolean {
  return !/\bconcurrently\b/i.test(sql);
}

/**
 * Adds the record of its end to a migration, in the migration's transaction. The engine records the end in a later
 * transaction: a stop between the two would leave an applied migration recorded as begun. With this statement, a migration
 * that is recorded as begun was rolled back.
 */
function recordEnd(sql: string, { migrationDirectories }: MigrationList): string {
  const isMigration = migrationDirectories.some(({ migrationFile: { content } }) => content.value === sql);
  if (!isMigration || !isOneTransaction(sql)) return sql;
  return `${sql}
;UPDATE "_prisma_migrations" SET "finished_at" = clock_timestamp() WHERE "finished_at" IS NULL AND "rolled_back_at" IS NULL;`;
}

/** Throws if a migration that is recorded as begun may have been applied. */
function refuseUnknownEnd(database: DatabaseUrl, name: string, { migrationDirectories }: MigrationList): void {
  const sql = migrationDirectories.find(({ path }) => path === name)?.migrationFile.content.value ?? '';
  if (isOneTransaction(sql)) return;
  throw new MigrationError(
    'unfinished',
    `Migration ${name} was begun on ${database.label}, its end was never recorded, and it is not one transaction. Look ` +
      `what of it is there, then record it with "npx prisma migrate resolve --applied ${name}" or "--rolled-back ${name}"`,
  );
}

async function explainEngineFailure(
  database: DatabaseUrl,
  error: unknown,
  session: SchemaEngineSession,
  diagnose: () => ReturnType<SchemaEngine['diagnoseMigrationHistory']>,
): Promise<MigrationError> {
  const refusal = session.scriptRefusal();
  if (refusal !== undefined) {
    // The server refused the script and rolled it back: a later start may try again.
    const failed = (await diagnose()).failedMigrationNames;
    for (const name of failed) await session.engine.markMigrationRolledBack({ migrationName: name });
    const what =
      failed.length === 0
        ? `Migrating ${database.label} failed before any migration began`
        : `Migration ${failed.join(', ')} failed on ${database.label} and nothing of it remains`;
    return new MigrationError('failed', `${what}: ${refusal}`);
  }
  const reason = error instanceof Error ? (error.message.split('\n')[0] ?? '') : String(error);
  if (userFacingCode(error) === 'P3005') {
    return new MigrationError(
      'not_empty',
      `The database ${database.label} is not empty and was not made by this project: it needs a database of its own`,
    );
  }
  return new MigrationError('interrupted', `Migrating ${database.label} was not possible: ${reason}`);
}

function userFacingCode(error: unknown): string | undefined {
  const code = typeof error === 'object' && error !== null && 'code' in error ? error.code : undefined;
  return typeof code === 'string' ? code : undefined;
}
