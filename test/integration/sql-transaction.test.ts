// What a transaction of the store's own does with statements that nobody waits for.

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

test('they are committed in their order, and their rows can be read afterwards', async () => {
  const [first, second] = await world.db.sqlTransaction(async (tx) => [insert(tx, 1), insert(tx, 2)] as const);
  expect([await first.rows, await second.rows]).toEqual([[{ n: 1 }], [{ n: 2 }]]);
  expect(await kept()).toEqual([1, 2]);
});

test('one that fails fails the transaction with its own error, whatever came after it', async () => {
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

test('one that waits too long for a lock has committed nothing, and is known to have', async () => {
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

test('a session that is ended before it answers one has committed nothing, and is known to have', async () => {
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

test('of two that lock each other out, one is done again', async () => {
  await world.database.pool.query('INSERT INTO kept VALUES (1), (2)');
  let begun = 0;
  let holding = 0;
  let bothHold = (): void => {};
  const together = new Promise<void>((resolve) => (bothHold = resolve));
  const moves: Promise<void>[] = [];
  const move = (from: number, to: number) =>
    world.db.sqlTransaction(async (tx) => {
      begun += 1;
      // Done again at once it may be before the other at the row that it gave up, and both would be locked out once more.
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

test('what pg could not write down is refused before anything of it is sent', async () => {
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
