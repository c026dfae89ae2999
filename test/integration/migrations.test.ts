// The guarantee of migrations: every start finds the schema that its code expects or reports why not, during concurrent
// starts and after an interrupted migration. constraints.test.ts checks the constraints.

import { cpSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { DatabaseUnavailable } from '../../prisma/database-url';
import { findPrismaDir, migrateDatabase, MigrationError, type MigrationProblem } from '../../prisma/migrate';
import { createTestDatabase, type TestDatabase } from '../support/database';
import { diffFromSchema } from '../support/schema-drift';

/** The project's migrations, in order. */
const OURS = readdirSync(join(findPrismaDir(), 'migrations'), { withFileTypes: true })
  .flatMap((entry) => (entry.isDirectory() ? [entry.name] : []))
  .sort();
const RECORDED = OURS.map((name) => ({ name, finished: true, rolled_back: false }));
const NEXT = '20990101000000_next';

let database: TestDatabase;
let client: pg.Client;
beforeEach(async () => {
  database = await createTestDatabase();
  client = new pg.Client({ connectionString: database.url });
  // Dropping the database ends the session.
  client.on('error', () => undefined);
  await client.connect();
});
afterEach(async () => {
  await client.end();
  await database.drop();
});

const folders: string[] = [];
afterAll(() => {
  for (const folder of folders) rmSync(folder, { recursive: true, force: true });
});

/** A folder with the project's migrations and one more. */
function migrationsWith(sql: string): string {
  const dir = mkdtempSync(join(tmpdir(), 'durable-room-migrations-'));
  folders.push(dir);
  cpSync(join(findPrismaDir(), 'migrations'), dir, { recursive: true });
  addMigration(dir, sql);
  return dir;
}

function addMigration(dir: string, sql: string): void {
  mkdirSync(join(dir, NEXT), { recursive: true });
  writeFileSync(join(dir, NEXT, 'migration.sql'), sql);
}

interface Row {
  name: string;
  finished: boolean;
  rolled_back: boolean;
}

async function recorded(): Promise<Row[]> {
  const { rows } = await client.query<Row>(
    `SELECT migration_name AS name, finished_at IS NOT NULL AS finished, rolled_back_at IS NOT NULL AS rolled_back
     FROM _prisma_migrations ORDER BY started_at`,
  );
  return rows;
}

async function failure(migrating: Promise<unknown>): Promise<MigrationError> {
  const error: unknown = await migrating.then(
    () => new Error('the migration succeeded'),
    (reason: unknown) => reason,
  );
  if (!(error instanceof MigrationError)) throw error;
  return error;
}

async function expectProblem(migrating: Promise<unknown>, problem: MigrationProblem, pattern: RegExp): Promise<void> {
  const error = await failure(migrating);
  expect(error.problem).toBe(problem);
  expect(error.message).toMatch(pattern);
}

test('an empty database gets every migration, and a second run applies none', async () => {
  const lines: string[] = [];
  expect(await migrateDatabase(database.url, { log: (line) => lines.push(line) })).toEqual({ applied: OURS });
  expect(lines).toEqual(OURS.map((name) => `Applied migration ${name}`));
  expect(await recorded()).toEqual(RECORDED);

  expect(await migrateDatabase(database.url)).toEqual({ applied: [] });
  expect(await recorded()).toHaveLength(OURS.length);
});

test('a migrated database matches schema.prisma', async () => {
  await migrateDatabase(database.url);
  expect(await diffFromSchema(database.url)).toBe('');
});

test('the comparison finds a column that only the database has', async () => {
  await migrateDatabase(database.url);
  await client.query('ALTER TABLE rooms ADD COLUMN colour text');
  expect(await diffFromSchema(database.url)).toContain('DROP COLUMN "colour"');
});

test('a database with data gets the missing migrations and keeps its data', async () => {
  await migrateDatabase(database.url);
  await client.query(`INSERT INTO companies (id, slug, name) VALUES ('company_1', 'acme', 'Acme')`);
  const migrationsDir = migrationsWith(`ALTER TABLE companies ADD COLUMN colour text NOT NULL DEFAULT 'red'`);

  expect(await migrateDatabase(database.url, { migrationsDir })).toEqual({ applied: [NEXT] });
  const { rows } = await client.query('SELECT slug, colour FROM companies');
  expect(rows).toEqual([{ slug: 'acme', colour: 'red' }]);
});

test('held actions from before the feed appear in it once each, in their current state', async () => {
  const migrationsDir = mkdtempSync(join(tmpdir(), 'durable-room-migrations-'));
  folders.push(migrationsDir);
  const before = OURS.slice(
    0,
    OURS.findIndex((name) => name.endsWith('_held_action_changes')),
  );
  for (const name of [...before, 'migration_lock.toml']) {
    cpSync(join(findPrismaDir(), 'migrations', name), join(migrationsDir, name), { recursive: true });
  }
  expect(await migrateDatabase(database.url, { migrationsDir })).toEqual({ applied: before });
  // Replica mode, because the runs of these actions do not exist.
  await client.query('SET session_replication_role = replica');
  await client.query(`
    INSERT INTO held_actions (id, run_id, step_key, room_id, company_id, agent_id, kind, sha256, state, expires_at, changed_at)
    SELECT 'held_' || n, 'run_' || n, 'reply', 'room', 'co_' || n % 2, 'agent', 'reply', repeat('ab', 32), state,
           now() + interval '1 day', now() - n * interval '1 minute'
    FROM (VALUES (1, 'held'), (2, 'expired'), (3, 'superseded')) AS x(n, state)`);
  expect(await migrateDatabase(database.url)).toEqual({ applied: OURS.slice(before.length) });
  const { rows } = await client.query(`
    SELECT c.held_action_id AS held, c.company_id AS company, c.state, c.number::int, c.at = h.changed_at AS when_it_changed
    FROM held_action_changes c JOIN held_actions h ON h.id = c.held_action_id ORDER BY 1`);
  expect(rows).toEqual([
    { held: 'held_1', company: 'co_1', state: 'held', number: 2, when_it_changed: true },
    { held: 'held_2', company: 'co_0', state: 'expired', number: 1, when_it_changed: true },
    { held: 'held_3', company: 'co_1', state: 'superseded', number: 1, when_it_changed: true },
  ]);
});

test('eight concurrent migrations in one process apply each migration once', async () => {
  const results = await Promise.all(Array.from({ length: 8 }, () => migrateDatabase(database.url)));
  expect(results.flatMap(({ applied }) => applied)).toEqual(OURS);
  expect(await recorded()).toEqual(RECORDED);
});

test.each([
  ['process of this project', '7306082713414557'],
  ['Prisma tool', '72707369'],
])('a migration that waits for another %s logs it, and continues when the lock is free', async (_, lock) => {
  const other = new pg.Client({ connectionString: database.url });
  await other.connect();
  const lines: string[] = [];
  await other.query('SELECT pg_advisory_lock($1::bigint)', [lock]);
  const migrating = migrateDatabase(database.url, { log: (line) => lines.push(line) });
  while (lines.length === 0) await sleep(20);
  expect(lines).toEqual(['Another process is migrating the database; waiting for it']);
  await other.end();
  expect(await migrating).toEqual({ applied: OURS });
});

describe('a migration that', () => {
  test('the database refuses leaves no change, and the next start tries it again', async () => {
    await migrateDatabase(database.url);
    const migrationsDir = migrationsWith('CREATE TABLE half (id text); SELECT 1/0');
    await expectProblem(
      migrateDatabase(database.url, { migrationsDir }),
      'failed',
      /20990101000000_next failed on .* nothing of it remains: division by zero \(22012\)/,
    );
    expect((await client.query(`SELECT to_regclass('half') AS half`)).rows).toEqual([{ half: null }]);

    addMigration(migrationsDir, 'CREATE TABLE half (id text)');
    expect(await migrateDatabase(database.url, { migrationsDir })).toEqual({ applied: [NEXT] });
    expect(await recorded()).toEqual([
      ...RECORDED,
      { name: NEXT, finished: false, rolled_back: true },
      { name: NEXT, finished: true, rolled_back: false },
    ]);
  });

  test('was stopped between its transaction and its record counts as applied', async () => {
    const migrationsDir = migrationsWith(`
      CREATE TABLE half (id text);
      CREATE FUNCTION stop() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'stopped here'; END $$;
      CREATE TRIGGER stop BEFORE UPDATE OF applied_steps_count ON _prisma_migrations
        FOR EACH ROW WHEN (NEW.migration_name = '${NEXT}') EXECUTE FUNCTION stop()`);
    await expectProblem(migrateDatabase(database.url, { migrationsDir }), 'interrupted', /stopped here/);
    expect((await client.query(`SELECT to_regclass('half') AS half`)).rows).toEqual([{ half: 'half' }]);
    expect(await migrateDatabase(database.url, { migrationsDir })).toEqual({ applied: [] });
  });

  test('is not one transaction and was stopped needs a person', async () => {
    const migrationsDir = migrationsWith('CREATE INDEX CONCURRENTLY rooms_name ON rooms (name)');
    expect(await migrateDatabase(database.url, { migrationsDir })).toEqual({ applied: [...OURS, NEXT] });
    await client.query('UPDATE _prisma_migrations SET finished_at = NULL WHERE migration_name = $1', [NEXT]);
    await expectProblem(migrateDatabase(database.url, { migrationsDir }), 'unfinished', /migrate resolve --applied/);
  });

  test('this code does not know is refused', async () => {
    await migrateDatabase(database.url, { migrationsDir: migrationsWith('SELECT 1') });
    await expectProblem(migrateDatabase(database.url), 'newer', /20990101000000_next.*newer code/);
  });

  test('was edited after it was applied is reported', async () => {
    const migrationsDir = migrationsWith('SELECT 1');
    await migrateDatabase(database.url, { migrationsDir });
    addMigration(migrationsDir, 'SELECT 2');
    const lines: string[] = [];
    expect(await migrateDatabase(database.url, { migrationsDir, log: (line) => lines.push(line) })).toEqual({
      applied: [],
    });
    expect(lines).toEqual([expect.stringMatching(/20990101000000_next was applied with another text/)]);
  });
});

test('a database with foreign tables is refused and not changed', async () => {
  await client.query('CREATE TABLE theirs (id text)');
  await expectProblem(migrateDatabase(database.url), 'not_empty', /needs a database of its own/);
  expect((await client.query(`SELECT to_regclass('_prisma_migrations') AS ours`)).rows).toEqual([{ ours: null }]);
});

test('a role that may not create tables gets an error that names the problem', async () => {
  const role = `reader_${process.pid}`;
  const url = new URL(database.url);
  url.username = role;
  url.password = 'ro1e-s3cret';
  await client.query(`CREATE ROLE ${role} LOGIN PASSWORD 'ro1e-s3cret'`);
  try {
    const error = await failure(migrateDatabase(url.toString()));
    expect(error.message).toMatch(/not possible: .*permission denied for schema public/);
    expect(error.message).not.toContain('s3cret');
  } finally {
    await client.query(`DROP ROLE ${role}`);
  }
});

test.each([
  ['no server at the address', 'postgres://app:s3cret@127.0.0.1:1/room', /127\.0\.0\.1:1\/room can not be reached/],
  ['an unknown host', 'postgres://app:s3cret@nowhere.invalid/room', /nowhere\.invalid:5432\/room can not be reached/],
  ['an unknown protocol', 'mysql://app:s3cret@127.0.0.1/room', /must begin with postgres/],
  ['a bare # in the password', 'postgres://app:1#s3cret@127.0.0.1/room', /percent-encoded/],
  ['a bare / in the password', 'postgres://app:1/s3cret@127.0.0.1/room', /percent-encoded/],
])('%s is reported in words, without the password', async (_, url, pattern) => {
  const error: unknown = await migrateDatabase(url).catch((reason: unknown) => reason);
  expect(error).toBeInstanceOf(DatabaseUnavailable);
  const { message, stack } = error as Error;
  expect(message).toMatch(pattern);
  expect(`${message}${String(stack)}${JSON.stringify(error)}`).not.toContain('s3cret');
});

test('a database that does not exist is named', async () => {
  const url = new URL(database.url);
  url.pathname = '/not_made';
  await expect(migrateDatabase(url.toString())).rejects.toThrow(/has no such database: .*not_made/);
});
