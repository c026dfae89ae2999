// Pipelined statements in a SQL transaction of the store: the caller does not wait for each answer.

import { Transient } from '../../prisma/store/db/errors';
import { constraintOf, sqlStateOf } from '../../prisma/store/db/sql-errors';
import type { PipelineTx } from '../../prisma/store/db/transaction';
import { createWorld, type World } from '../support/world';

let world: World;

beforeAll(async () => {
  world = await createWorld({ modelUrl: 'http://127.0.0.1:9' });
  await world.database.pool.query('CREATE TABLE kept (n int PRIMARY KEY)');
});
afterAll(() => world.close());
beforeEach(() => world.database.pool.query('TRUNCATE kept'));

async function kept(): Promise<number[]> {
  const { rows } = await world.database.pool.query<{ n: number }>('SELECT n FROM kept ORDER BY n');
  return rows.map(({ n }) => n);
}

const insert = (tx: PipelineTx, n: number) => tx.$pipeline<{ n: number }>`INSERT INTO kept VALUES (${n}) RETURNING n`;

async function failureOf(work: Promise<unknown>): Promise<unknown> {
  return work.then(
    () => 'none',
    (error: unknown) => error,
  );
}

test('pipelined statements are committed in order, and their rows can be read after the commit', async () => {
  const [first, second] = await world.db.sqlTransaction(async (tx) => [insert(tx, 1), insert(tx, 2)] as const);
  expect([await first.rows, await second.rows]).toEqual([[{ n: 1 }], [{ n: 2 }]]);
  expect(await kept()).toEqual([1, 2]);
});

test('a failed statement fails the transaction with its own error, whatever follows it', async () => {
  const atCommit = await failureOf(
    world.db.sqlTransaction(async (tx) => {
      insert(tx, 1);
      insert(tx, 1);
      insert(tx, 2);
    }),
  );
  const before = await failureOf(
    world.db.sqlTransaction(async (tx) => {
      insert(tx, 1);
      insert(tx, 1);
      await tx.$queryRaw`SELECT 1 AS one`;
    }),
  );
  for (const error of [atCommit, before]) {
    expect(sqlStateOf(error)).toBe('23505');
    expect(constraintOf(error)).toBe('kept_pkey');
  }
  expect(await kept()).toEqual([]);
  await world.db.sqlTransaction(async (tx) => insert(tx, 3));
  expect(await kept()).toEqual([3]);
});

test('a lock timeout of a statement commits nothing, and its error reports that', async () => {
  const holder = await world.database.pool.connect();
  await holder.query('BEGIN');
  await holder.query('INSERT INTO kept VALUES (1)');
  const error = await failureOf(
    world.db.sqlTransaction(async (tx) => {
      await tx.$executeRaw`SET LOCAL lock_timeout = '50ms'`;
      insert(tx, 2);
      insert(tx, 1);
    }),
  );
  await holder.query('ROLLBACK');
  holder.release();
  expect(error).toBeInstanceOf(Transient);
  expect((error as Transient).uncommitted).toBe(true);
  expect(await kept()).toEqual([]);
});

test('a session that ends before it answers a statement commits nothing, and its error reports that', async () => {
  const endIn = (tx: PipelineTx) => tx.$pipeline`SELECT pg_terminate_backend(pg_backend_pid())`;
  const error = await failureOf(
    world.db.sqlTransaction(async (tx) => {
      insert(tx, 1);
      endIn(tx);
    }),
  );
  expect(error).toBeInstanceOf(Transient);
  expect((error as Transient).uncommitted).toBe(true);
  expect(await kept()).toEqual([]);
});

test('one of two transactions in a deadlock is repeated', async () => {
  await world.database.pool.query('INSERT INTO kept VALUES (1), (2)');
  let begun = 0;
  let holding = 0;
  let bothHold = (): void => {};
  const together = new Promise<void>((resolve) => (bothHold = resolve));
  const moves: Promise<void>[] = [];
  const move = (from: number, to: number) =>
    world.db.sqlTransaction(async (tx) => {
      begun += 1;
      // The repeated transaction waits for the other, because an immediate repeat could cause a second deadlock.
      if (begun > 2) await Promise.race(moves);
      await tx.$executeRaw`UPDATE kept SET n = n WHERE n = ${from}`;
      holding += 1;
      if (holding === 2) bothHold();
      await together;
      void tx.$pipeline`UPDATE kept SET n = n + 10 WHERE n = ${to}`;
    });
  moves.push(move(1, 2), move(2, 1));
  await Promise.all(moves);
  expect(begun).toBe(3);
  expect(await kept()).toEqual([11, 12]);
});

test('a value that pg cannot serialize is refused before anything is sent', async () => {
  const circular: Record<string, unknown> = {};
  circular['self'] = circular;
  const error = await failureOf(
    world.db.sqlTransaction(async (tx) => {
      insert(tx, 1);
      void tx.$pipeline`SELECT ${circular}::text`;
    }),
  );
  expect(error).toMatchObject({ message: expect.stringContaining('plain values') });
  expect(await kept()).toEqual([]);
});
