// A connection pool recovers after its server restarts or does not answer. The test starts and stops its own server.

import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { connectDatabase, type DatabaseOptions } from '../../prisma/client';
import { DatabaseUnavailable } from '../../prisma/database-url';
import { migrateDatabase } from '../../prisma/migrate';
import { type EmbeddedPostgres, startEmbeddedPostgres } from '../../worker/local/postgres';
import { until } from '../support/run-waits';
import { openTcpGate } from '../support/tcp-gate';

const OPTIONS: DatabaseOptions = {
  poolSize: 3,
  statementTimeoutMs: 50_000,
  lockTimeoutMs: 40_000,
  transactionTimeoutMs: 60_000,
  applicationName: 'database-server.test',
};

describe('with a server of the test', () => {
  const dir = mkdtempSync(join(tmpdir(), 'durable-room-postgres-'));
  const start = (port?: number): Promise<EmbeddedPostgres> =>
    startEmbeddedPostgres({ dir, port, durability: 'test', log: () => undefined });
  let server: EmbeddedPostgres;
  // Also closed after a failed test: an open pool would keep jest running.
  const opened: { close(): Promise<void> }[] = [];
  afterEach(async () => {
    for (const one of opened.splice(0).reverse()) await one.close();
  });
  beforeAll(async () => {
    server = await start();
    await migrateDatabase(server.url);
  });
  afterAll(async () => {
    await server.stop();
    rmSync(dir, { recursive: true, force: true });
  });

  test('the pool connects again after a restart of the server', async () => {
    const db = await connectDatabase(server.url, OPTIONS);
    opened.push(db);
    await Promise.all(Array.from({ length: OPTIONS.poolSize }, () => db.pool.query('SELECT pg_sleep(0.05)')));
    expect(db.pool.idleCount).toBe(OPTIONS.poolSize);
    let inTransaction: (() => void) | undefined;
    const begun = new Promise<void>((resolve) => (inTransaction = resolve));
    const interrupted = db.prisma.$transaction(async (tx) => {
      await tx.company.create({ data: { id: 'company_lost', slug: 'lost', name: 'Lost' } });
      inTransaction?.();
      await tx.$queryRaw`SELECT pg_sleep(60)::text`;
    });
    const failed = expect(interrupted).rejects.toThrow();
    await begun;

    await server.stop();
    await failed;
    await expect(db.pool.query('SELECT 1')).rejects.toMatchObject({ code: 'ECONNREFUSED' });
    await expect(db.prisma.company.count()).rejects.toThrow();

    server = await start(server.port);
    // No wait is needed: the pool has already removed every dead connection.
    expect(await db.prisma.company.count()).toBe(0);
    expect((await db.pool.query('SHOW lock_timeout')).rows).toEqual([{ lock_timeout: '40s' }]);
    await db.prisma.$transaction((tx) => tx.company.create({ data: { id: 'company_1', slug: 'a', name: 'A' } }));
    expect(await db.prisma.company.count()).toBe(1);
  });

  test('the pool closes its connections to a server that does not answer, and connects again later', async () => {
    const gate = await openTcpGate(server.port);
    const url = new URL(server.url);
    url.port = String(gate.port);
    // The pool waits at least five seconds longer than the statement timeout for an answer.
    const db = await connectDatabase(url.toString(), {
      ...OPTIONS,
      statementTimeoutMs: 1_000,
      transactionTimeoutMs: 3_000,
    });
    // The gate closes first: closing the pool waits for a connection in use.
    opened.push(db, gate);
    let answered: (() => void) | undefined;
    let silence: (() => void) | undefined;
    const begun = new Promise<void>((resolve) => (answered = resolve));
    const silent = new Promise<void>((resolve) => (silence = resolve));
    const transaction = db.prisma.$transaction(
      async (tx) => {
        await tx.$queryRaw`SELECT 1`;
        answered?.();
        await silent;
        await tx.$queryRaw`SELECT 1`;
      },
      { timeout: 30_000 },
    );
    await begun;
    gate.fallSilent();
    silence?.();
    await Promise.all([
      expect(transaction).rejects.toThrow(),
      expect(db.pool.query('SELECT 1')).rejects.toThrow(),
      expect(db.prisma.company.count()).rejects.toThrow(),
    ]);

    gate.open();
    await until('a connection that answers', () => db.prisma.$queryRaw`SELECT 1 AS one`.catch(() => null));
    const all = Array.from({ length: OPTIONS.poolSize }, () => db.pool.query('SELECT pg_sleep(0.05)'));
    await expect(Promise.all(all)).resolves.toHaveLength(OPTIONS.poolSize);
  });

  test('a wrong password is refused, and the error does not contain it', async () => {
    const url = new URL(server.url);
    url.password = 'wr0ng-s3cret';
    const error: unknown = await migrateDatabase(url.toString()).catch((reason: unknown) => reason);
    expect(error).toBeInstanceOf(DatabaseUnavailable);
    expect((error as Error).message).toMatch(/refused the user or the password/);
    expect(String((error as Error).stack)).not.toContain('s3cret');
  });
});
