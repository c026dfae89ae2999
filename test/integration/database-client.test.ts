// The guarantees of a connection: every session has time limits, times are read as they were written, and the pool and the
// process survive restarts of the server and lost connections.

import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { connectDatabase, type Database, type DatabaseOptions } from '../../prisma/client';
import { DatabaseUnavailable, parseDatabaseUrl, refuseOldServer } from '../../prisma/database-url';
import { createTestDatabase, type TestDatabase } from '../support/database';

const OPTIONS: DatabaseOptions = {
  poolSize: 3,
  statementTimeoutMs: 50_000,
  lockTimeoutMs: 40_000,
  transactionTimeoutMs: 60_000,
  applicationName: 'database-client.test',
};

describe('on a running server', () => {
  let test_: TestDatabase;
  let db: Database;
  beforeAll(async () => {
    test_ = await createTestDatabase({ migrated: true });
    const admin = new pg.Client({ connectionString: test_.url });
    await admin.connect();
    // A server may use a time zone other than UTC. The half hour in this offset shows that minutes count too.
    await admin.query(`ALTER DATABASE "${test_.name}" SET timezone = 'Asia/Kolkata'`);
    await admin.query(`ALTER DATABASE "${test_.name}" SET datestyle = 'German'`);
    await admin.end();
    db = await connectDatabase(test_.url, OPTIONS);
  });
  afterAll(async () => {
    await db.close();
    await test_.drop();
  });

  test('every session has its time limits and its name', async () => {
    const { rows } = await db.pool.query<{ name: string; setting: string }>(
      `SELECT name, setting FROM pg_settings WHERE source = 'client'`,
    );
    const settings = Object.fromEntries(rows.map(({ name, setting }) => [name, setting]));
    const { server_version_num: version } = (await db.pool.query('SHOW server_version_num')).rows[0] as {
      server_version_num: string;
    };
    expect(settings).toMatchObject({
      application_name: 'database-client.test',
      statement_timeout: '50000',
      lock_timeout: '40000',
      idle_in_transaction_session_timeout: '60000',
      ...(Number(version) >= 170000 && { transaction_timeout: '60000' }),
      TimeZone: 'UTC',
    });
  });

  test('settings of the URL are kept unless the client sets them', async () => {
    const url = new URL(test_.url);
    url.searchParams.set('options', '-c work_mem=7MB -c lock_timeout=9s');
    const other = await connectDatabase(url.toString(), OPTIONS);
    const show = async (name: string): Promise<unknown> => (await other.pool.query(`SHOW ${name}`)).rows[0];
    expect(await show('work_mem')).toEqual({ work_mem: '7MB' });
    expect(await show('lock_timeout')).toEqual({ lock_timeout: '40s' });
    await other.close();
  });

  test('a time is read as it was written in any time zone of the server', async () => {
    const at = new Date('2026-03-29T00:30:00.123Z');
    await db.prisma.company.create({ data: { id: 'company_t', slug: 'time', name: 'Time', createdAt: at } });
    expect((await db.prisma.company.findUniqueOrThrow({ where: { id: 'company_t' } })).createdAt).toEqual(at);
    const raw = await db.$queryRaw`SELECT created_at FROM companies WHERE id = 'company_t'`;
    expect(raw).toEqual([{ created_at: at }]);
    const { rows } = await db.pool.query(`SELECT created_at FROM companies WHERE id = 'company_t'`);
    expect(rows).toEqual([{ created_at: at }]);
  });

  test('Prisma and plain SQL share one pool', async () => {
    // Another application name, because a session that an earlier test closed may still exist for a moment.
    const own = await connectDatabase(test_.url, { ...OPTIONS, applicationName: 'one pool' });
    await Promise.all(
      Array.from({ length: 12 }, (_, i) =>
        i % 2 === 0 ? own.$queryRaw`SELECT pg_sleep(0.01)::text` : own.pool.query('SELECT pg_sleep(0.01)'),
      ),
    );
    const { rows } = await own.pool.query(
      `SELECT count(*)::int AS sessions FROM pg_stat_activity WHERE application_name = 'one pool'`,
    );
    expect(rows).toEqual([{ sessions: OPTIONS.poolSize }]);
    await own.close();
  });

  test('a held lock fails the query that waits for it, and no other query', async () => {
    const hasty = await connectDatabase(test_.url, { ...OPTIONS, lockTimeoutMs: 300 });
    const holder = await db.pool.connect();
    await holder.query('BEGIN');
    await holder.query('LOCK TABLE rooms');
    await expect(hasty.pool.query('SELECT FROM rooms')).rejects.toMatchObject({ code: '55P03' });
    await holder.query('ROLLBACK');
    holder.release();
    expect((await db.pool.query('SELECT FROM rooms')).rowCount).toBe(0);
    await hasty.close();
  });

  test.each([
    ['before its next query', 0],
    ['while it is idle', 100],
  ])('a session that is killed %s fails only the caller that holds it', async (_, waitMs) => {
    const victim = await db.pool.connect();
    const { rows } = await victim.query<{ pid: number }>('SELECT pg_backend_pid() AS pid');
    await db.pool.query('SELECT pg_terminate_backend($1)', [rows[0]?.pid]);
    await sleep(waitMs);
    await expect(victim.query('SELECT 1')).rejects.toThrow();
    victim.release();
    expect((await db.pool.query('SELECT 1 AS one')).rows).toEqual([{ one: 1 }]);
  });

  test('the server ends an idle transaction, and its connection is not used again', async () => {
    const hasty = await connectDatabase(test_.url, { ...OPTIONS, transactionTimeoutMs: 1_500 });
    const slow = hasty.prisma.$transaction(
      async (tx) => {
        await tx.$queryRaw`SELECT 1`;
        await sleep(2_000);
        await tx.$queryRaw`SELECT 1`;
      },
      // Longer than the server's limit, so the server's limit is reached first.
      { timeout: 30_000 },
    );
    await expect(slow).rejects.toThrow();
    expect(await hasty.$queryRaw`SELECT 1 AS one`).toEqual([{ one: 1 }]);
    await hasty.close();
  });

  test('a wrong URL fails at once, and the error does not contain its password', async () => {
    const url = new URL(test_.url);
    url.password = 's3cret';
    url.port = '1';
    const error: unknown = await connectDatabase(url.toString(), OPTIONS).catch((reason: unknown) => reason);
    expect(error).toBeInstanceOf(DatabaseUnavailable);
    expect(String((error as Error).stack)).not.toContain('s3cret');
  });

  test('a second close has no effect', async () => {
    const other = await connectDatabase(test_.url, OPTIONS);
    await other.$queryRaw`SELECT 1`;
    await Promise.all([other.close(), other.close()]);
    await other.close();
    expect(other.pool.ended).toBe(true);
  });
});

test('a server older than version 15 is refused with its address, and version 15 is accepted', () => {
  const database = parseDatabaseUrl('postgres://app:s3cret@db.example/room');
  expect(() => refuseOldServer(database, 140012)).toThrow(
    'Postgres at db.example:5432/room is version 14; 15 or newer is needed',
  );
  expect(() => refuseOldServer(database, 150000)).not.toThrow();
});
