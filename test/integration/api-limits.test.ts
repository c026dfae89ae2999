// The limits of one caller, and that other callers are not affected.

import { Readable } from 'node:stream';
import { buffer } from 'node:stream/consumers';
import { createGzip } from 'node:zlib';
import pg from 'pg';
import {
  createClient,
  expectStatus,
  serveSecondApi,
  setUpRoom,
  startTestApi,
  type TestApi,
  type TestRoom,
} from '../support/api';
import { openCommitCutter } from '../support/commit-cutter';
import { connectDatabase } from '../../prisma/client';

let api: TestApi;
let room: TestRoom;
beforeAll(async () => {
  api = await startTestApi();
  room = await setUpRoom(api);
});
afterAll(() => api.close());

const serve = (change: Parameters<typeof serveSecondApi>[1]) => serveSecondApi(api, change);
const newToken = async (): Promise<string> =>
  (await expectStatus(201, room.larkspur.admin.post('/v1/keys', { kind: 'service', name: 's' }))).token;

test('the requests per minute of a key are limited, and requests beyond get 429 with Retry-After', async () => {
  const served = await serve({ requestsPerMinute: 5 });
  const [busy, other] = [createClient(served.url, await newToken()), createClient(served.url, await newToken())];
  for (let n = 0; n < 5; n += 1) await expectStatus(200, busy.get('/v1/rooms'));
  for (const answer of [
    await busy.get('/v1/rooms'),
    await busy.post(`${room.path}/events`, { type: 'message', text: 'x' }),
  ]) {
    expect([answer.status, answer.body.code]).toEqual([429, 'rate_limited']);
    const seconds = Number(answer.headers.get('retry-after'));
    expect(seconds).toBeGreaterThan(0);
    expect(seconds).toBeLessThanOrEqual(60);
  }
  // Another key of the same company is not limited, nor is a route without a key.
  await expectStatus(200, other.get('/v1/rooms'));
  await expectStatus(200, busy.get('/healthz'));
  await served.close();
});

test('requests with a wrong key count against no other key', async () => {
  const served = await serve({ requestsPerMinute: 1 });
  for (let n = 0; n < 3; n += 1) await expectStatus(401, createClient(served.url, 'wrong').get('/v1/rooms'));
  await expectStatus(200, createClient(served.url, await newToken()).get('/v1/rooms'));
  await served.close();
});

test('a gzip body of 1 MiB that unpacks to 1 GiB is refused and is not kept in memory', async () => {
  const mebibyte = Buffer.alloc(1_048_576, ' ');
  const spaces = Readable.from(Array.from({ length: 64 }, () => mebibyte));
  // Concatenated gzip files are one gzip file, so only a sixteenth is compressed here.
  const sixteenth = await buffer(spaces.pipe(createGzip({ level: 9 })));
  const bomb = Buffer.concat(Array.from({ length: 16 }, () => sixteenth));
  expect(bomb.length).toBeLessThanOrEqual(1_048_576);
  const before = process.memoryUsage().rss;
  const answer = await room.larkspur.member.send('POST', `${room.path}/events`, {
    body: bomb,
    headers: { 'content-type': 'application/json', 'content-encoding': 'gzip' },
  });
  expect([answer.status, answer.body.code]).toEqual([413, 'body_too_large']);
  expect(process.memoryUsage().rss - before).toBeLessThan(200 * 1024 * 1024);
  await expectStatus(200, api.client().get('/readyz'));
});

test('a repeat of a committed write whose answer was lost gets the stored answer', async () => {
  const url = new URL(api.databaseUrl);
  const cutter = await openCommitCutter(Number(url.port));
  url.port = String(cutter.port);
  const database = await connectDatabase(url.toString(), {
    // One connection, so that the next commit uses the connection whose port is read below.
    poolSize: 1,
    lockTimeoutMs: 5_000,
    statementTimeoutMs: 10_000,
    transactionTimeoutMs: 15_000,
    applicationName: 'durable-room-test',
  });
  const served = await serve({ db: database });
  const client = createClient(served.url, await newToken());
  const send = () =>
    client.send('POST', `${room.path}/events`, {
      body: JSON.stringify({ type: 'message', text: 'was it there?' }),
      headers: { 'content-type': 'application/json', 'idempotency-key': 'lost' },
    });
  const { rows } = await database.pool.query<{ port: number }>('SELECT inet_client_port() AS port');
  cutter.cutAtCommit((rows[0] as { port: number }).port, 'after_commit');
  const lost = await send();
  expect([lost.status, lost.body.code, cutter.cuts]).toEqual([503, 'unavailable', 1]);
  const again = await send();
  expect([again.status, again.headers.get('idempotency-replayed')]).toEqual([201, 'true']);
  expect(await api.db.message.count({ where: { roomId: room.id, text: 'was it there?' } })).toBe(1);
  expect(await api.db.message.count({ where: { id: again.body.id } })).toBe(1);
  await served.close();
  await database.close();
  await cutter.close();
});

test('a refused request leaves no connection in a transaction', async () => {
  const body = { type: 'message', text: 'x', mentions: ['absent'] };
  for (let n = 0; n < 20; n += 1) await expectStatus(400, room.larkspur.member.post(`${room.path}/events`, body));
  const client = new pg.Client({ connectionString: api.databaseUrl });
  await client.connect();
  const { rows } = await client.query(
    `SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND state LIKE 'idle in transaction%'`,
  );
  expect(rows).toEqual([]);
  await client.end();
});
