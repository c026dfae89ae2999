// Creates databases for tests on the server of TEST_DATABASE_URL_BASE. A test file drops its database at its end. A migrated
// database is a copy of a template that is migrated once.

import { createHash, randomBytes } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import pg from 'pg';
import { findPrismaDir, migrateDatabase } from '../../prisma/migrate';

export interface TestDatabase {
  readonly url: string;
  readonly name: string;
  /** Ends all sessions of the database first. */
  drop(): Promise<void>;
}

/** The advisory lock under which one of several jest workers creates the template. The number is arbitrary. */
const TEMPLATE_LOCK = '7306082713414558';

/** Creates a database: empty, or with every migration applied. */
export async function createTestDatabase(options: { migrated?: boolean } = {}): Promise<TestDatabase> {
  const template = options.migrated === true ? await ensureTemplate() : 'template0';
  const name = `test_${process.pid}_${randomBytes(6).toString('hex')}`;
  // FILE_COPY: half the time of WAL_LOG, the default, whose write-ahead log a test does not need.
  await onBase((base) => base.query(`CREATE DATABASE "${name}" TEMPLATE "${template}" STRATEGY FILE_COPY`));
  return {
    url: urlOf(name),
    name,
    drop: () => onBase(async (base) => void (await base.query(`DROP DATABASE IF EXISTS "${name}" WITH (FORCE)`))),
  };
}

/** By the address of the server: a test file may start its own server. */
const templates = new Map<string, Promise<string>>();

/** The name of a migrated database without sessions. Creates it if it is missing; a changed migration gives another name. */
export function ensureTemplate(): Promise<string> {
  const known = templates.get(baseUrl());
  if (known !== undefined) return known;
  const made = onBase(async (base) => {
    const name = `template_${hashMigrations()}`;
    // The end of the session releases the lock.
    await base.query('SELECT pg_advisory_lock($1::bigint)', [TEMPLATE_LOCK]);
    const { rowCount } = await base.query('SELECT FROM pg_database WHERE datname = $1', [name]);
    if (rowCount === 1) return name;
    const making = `${name}_making`;
    await base.query(`DROP DATABASE IF EXISTS "${making}" WITH (FORCE)`);
    await base.query(`CREATE DATABASE "${making}" TEMPLATE template0`);
    await migrateDatabase(urlOf(making));
    await base.query(`ALTER DATABASE "${making}" RENAME TO "${name}"`);
    return name;
  });
  templates.set(baseUrl(), made);
  return made;
}

function hashMigrations(): string {
  const dir = join(findPrismaDir(), 'migrations');
  const hash = createHash('sha256');
  for (const entry of readdirSync(dir, { withFileTypes: true }).sort((a, b) => (a.name < b.name ? -1 : 1))) {
    if (entry.isDirectory()) hash.update(entry.name).update(readFileSync(join(dir, entry.name, 'migration.sql')));
  }
  return hash.digest('hex').slice(0, 12);
}

function baseUrl(): string {
  const url = process.env['TEST_DATABASE_URL_BASE'];
  if (url === undefined) throw new Error('TEST_DATABASE_URL_BASE is not set: the jest globalSetup starts a server');
  return url;
}

function urlOf(database: string): string {
  const url = new URL(baseUrl());
  url.pathname = `/${database}`;
  return url.toString();
}

async function onBase<T>(work: (base: pg.Client) => Promise<T>): Promise<T> {
  const base = new pg.Client({ connectionString: baseUrl(), application_name: 'durable-room tests' });
  await base.connect();
  try {
    return await work(base);
  } finally {
    await base.end();
  }
}
