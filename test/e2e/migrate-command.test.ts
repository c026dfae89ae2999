// Migrations as a deployment runs them, with the compiled `durable-room migrate`: many processes, kills, failures.

import { mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import pg from 'pg';
import { findPrismaDir, migrateDatabase } from '../../prisma/migrate';
import { compileProject, type CompiledProject } from '../support/compiled-migrate';
import { createTestDatabase, type TestDatabase } from '../support/database';
import { until } from '../support/run-waits';

/** The project's migrations, in order. */
const OURS = readdirSync(join(findPrismaDir(), 'migrations'), { withFileTypes: true })
  .flatMap((entry) => (entry.isDirectory() ? [entry.name] : []))
  .sort();
const NEXT = '20990101000000_next';
/** An advisory lock that stops a migration in its middle. */
const BARRIER = 20_990_101;

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

describe('durable-room migrate', () => {
  let project: CompiledProject;
  beforeEach(() => {
    project = compileProject();
  });
  afterEach(() => {
    project.remove();
  });

  test('eight processes at once apply each migration once, and all exit 0', async () => {
    const exits = await Promise.all(Array.from({ length: 8 }, () => project.migrate(database.url).exit));
    expect(exits.map(({ code }) => code)).toEqual(Array.from({ length: 8 }, () => 0));
    const applying = exits.filter(({ output }) => output.includes(`Applied migration ${OURS[0]}`));
    const idle = exits.filter(({ output }) => output.includes('Nothing to apply'));
    expect([applying.length, idle.length]).toEqual([1, 7]);
    // No warnings either, for example of Node's experimental features.
    expect(exits.map(({ output }) => output.replace(/^(Applied|Nothing|Another).*\n/gm, '')).join('')).toBe('');
  });

  test.each([
    // Postgres does not notice that its client is dead.
    ['carries on to the end', 'Nothing to apply', [{ name: NEXT, finished: true, rolled_back: false }]],
    [
      'ends the session',
      `Applied migration ${NEXT}`,
      [
        { name: NEXT, finished: false, rolled_back: true },
        { name: NEXT, finished: true, rolled_back: false },
      ],
    ],
  ])('after a kill, Postgres %s, and the next start completes the migrations', async (then, output, rows) => {
    await migrateDatabase(database.url);
    addMigration(project.migrationsDir, `CREATE TABLE half (id text); SELECT pg_advisory_xact_lock(${BARRIER})`);
    await client.query('SELECT pg_advisory_lock($1)', [BARRIER]);
    const killed = project.migrate(database.url);
    const waiting = async (): Promise<number | undefined> => {
      const found = await client.query<{ pid: number }>(
        `SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND objid = $1 AND NOT granted
           AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`,
        [BARRIER],
      );
      return found.rows[0]?.pid;
    };
    const pid = await until('the migration to wait in its middle', waiting);
    killed.kill();
    expect((await killed.exit).code).toBeNull();
    expect(await waiting()).toBe(pid);
    if (then === 'ends the session') await client.query('SELECT pg_terminate_backend($1)', [pid]);
    await client.query('SELECT pg_advisory_unlock($1)', [BARRIER]);

    const exit = await project.migrate(database.url).exit;
    expect(exit.output).toContain(output);
    expect(exit.code).toBe(0);
    expect((await recorded()).slice(OURS.length)).toEqual(rows);
    expect((await client.query(`SELECT to_regclass('half') AS half`)).rows).toEqual([{ half: 'half' }]);
  });

  test('a failure is one line without the password, and a non-zero exit code', async () => {
    const { code, output } = await project.migrate('postgres://app:s3cret@127.0.0.1:1/room').exit;
    expect(code).toBe(1);
    expect(output).toMatch(/^Postgres at 127\.0\.0\.1:1\/room can not be reached: .*\n$/);
    expect((await project.migrate('').exit).output).toMatch(/^DATABASE_URL is not set/);
  });
});
