// Failures behind the API: the answers to callers, and the details that callers do not see.

import pino from 'pino';
import { connectDatabase } from '../../prisma/client';
import type { Database } from '../../prisma/store/db/database';
import {
  createClient,
  expectStatus,
  serveApi,
  setUpRoom,
  startTestApi,
  type TestApi,
  type TestRoom,
} from '../support/api';
import { createTestDatabase } from '../support/database';
import { openTcpGate } from '../support/tcp-gate';

let api: TestApi;
let room: TestRoom;

beforeAll(async () => {
  api = await startTestApi();
  room = await setUpRoom(api);
});
afterAll(() => api.close());

const events = (): string => `${room.path}/events`;
const countRows = async (): Promise<number[]> =>
  Promise.all([api.db.roomEvent.count(), api.db.message.count(), api.db.wake.count()]);

describe('on a failure', () => {
  const deps = (db: Database, log = pino({ level: 'silent' })) => ({
    db,
    secretBox: api.secretBox,
    providers: new Map<string, string>(),
    allowedModelHosts: [],
    prices: new Map(),
    log,
  });
  const connect = (url: string) =>
    connectDatabase(url, {
      poolSize: 2,
      lockTimeoutMs: 300,
      statementTimeoutMs: 10_000,
      transactionTimeoutMs: 15_000,
      applicationName: 'durable-room-test',
    });
  const newToken = async (): Promise<string> =>
    (await expectStatus(201, room.larkspur.admin.post('/v1/keys', { kind: 'service', name: 's' }))).token;

  test('a bug gives 500 without the reason, and the log has the reason', async () => {
    const lines: string[] = [];
    const broken = new Proxy(api.db, {
      get: (target, name) => {
        if (name === 'room') throw new Error('secret reason in /srv/app/file.ts');
        return Reflect.get(target, name) as unknown;
      },
    });
    const served = await serveApi(deps(broken, pino({}, { write: (line: string) => void lines.push(line) })));
    const answer = await createClient(served.url, await newToken()).get('/v1/rooms');
    expect([answer.status, answer.body.code]).toEqual([500, 'internal']);
    expect(answer.text).not.toMatch(/secret|srv|file\.ts/);
    const failure = lines.map((line) => JSON.parse(line)).find((line) => line.msg === 'request failed');
    const err = { message: expect.stringContaining('secret reason') };
    expect(failure).toMatchObject({ request: answer.body.request_id, err });
    await served.close();
  });

  test('an unreachable database gives 503 with Retry-After', async () => {
    const url = new URL(api.databaseUrl);
    const gate = await openTcpGate(Number(url.port));
    url.port = String(gate.port);
    const database = await connect(url.toString());
    const served = await serveApi(deps(database));
    const client = createClient(served.url, await newToken());
    await expectStatus(200, client.get('/readyz'));
    await gate.close();
    const requests = [
      () => client.get('/v1/rooms'),
      () => client.post(events(), { type: 'message', text: 'hi' }),
      () => client.get('/readyz'),
    ];
    for (const request of requests) {
      const answer = await request();
      expect([answer.status, answer.body.code]).toEqual([503, 'unavailable']);
      expect(Number(answer.headers.get('retry-after'))).toBeGreaterThan(0);
    }
    await expectStatus(200, client.get('/healthz'));
    await served.close();
    await database.close();
  });

  test('a locked room gives 503, and nothing of the event is stored', async () => {
    const database = await connect(api.databaseUrl);
    const served = await serveApi(deps(database));
    const client = createClient(served.url, await newToken());
    const before = await countRows();
    await api.db.transaction(async (tx) => {
      await tx.$queryRaw`SELECT id FROM rooms WHERE id = ${room.id} FOR UPDATE`;
      const answer = await client.post(events(), { type: 'message', text: 'hi @scribe' });
      expect([answer.status, answer.body.code]).toEqual([503, 'unavailable']);
    });
    expect(await countRows()).toEqual(before);
    await expectStatus(201, client.post(events(), { type: 'message', text: 'hi @scribe' }));
    await served.close();
    await database.close();
  });

  test('a database without migrations is not ready', async () => {
    const empty = await createTestDatabase();
    const database = await connect(empty.url);
    const served = await serveApi(deps(database));
    expect(await expectStatus(503, createClient(served.url).get('/readyz'))).toMatchObject({ code: 'unavailable' });
    await expectStatus(200, createClient(served.url).get('/healthz'));
    await served.close();
    await database.close();
    await empty.drop();
  });
});
