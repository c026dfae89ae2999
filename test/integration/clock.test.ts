// The clock that the store writes and compares with: never ahead of the Postgres clock, in the precision of the columns.

import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { createWorld, type World } from '../support/world';

let world: World;
beforeAll(async () => {
  world = await createWorld({ modelUrl: 'http://127.0.0.1:1/v1' });
});
afterAll(() => world.close());

test('a time that a column stores is never later than the clock that a comparison reads next', async () => {
  const [row] = await world.db.$queryRaw<{ early: bigint; n: bigint }[]>`
    SELECT count(*) FILTER (WHERE stored > next) AS early, count(*) AS n
    FROM (SELECT clock_ms()::timestamptz(3) AS stored, clock_timestamp() AS next FROM generate_series(1, 5000)) x`;
  expect(row).toEqual({ early: 0n, n: 5000n });
});

test('every default of a column with millisecond precision uses that clock', async () => {
  const defaults = await world.db.$queryRaw<{ name: string; value: string }[]>`
    SELECT table_name || '.' || column_name AS name, column_default AS value FROM information_schema.columns
    WHERE table_schema = 'public' AND data_type = 'timestamp with time zone' AND datetime_precision = 3
      AND column_default IS NOT NULL AND table_name <> '_prisma_migrations'`;
  expect(defaults.length).toBeGreaterThan(20);
  expect(defaults.filter(({ value }) => value !== 'clock_ms()')).toEqual([]);
});

test('no statement of the store uses another clock', () => {
  const folder = join(__dirname, '..', '..', 'prisma', 'store');
  const files = readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter((name) => name.endsWith('.ts'));
  expect(files.length).toBeGreaterThan(50);
  // The doctor shows the clock of a database that may not be migrated yet. It compares no column with it.
  const checked = files.filter((name) => name !== join('reports', 'inspection.ts'));
  const others = checked.filter((name) =>
    /clock_timestamp|\bnow\(\)|CURRENT_TIMESTAMP/.test(
      readFileSync(join(folder, name), 'utf8').replaceAll('Date.now()', ''),
    ),
  );
  expect(others).toEqual([]);
});
