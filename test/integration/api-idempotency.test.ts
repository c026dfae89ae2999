// Idempotency keys: a repeated request runs once and gets the stored answer. Keys of other callers have no effect on it.

import pg from 'pg';
import { deleteOldAnswers } from '../../worker/stored-answer-cleaner';
import { storeAnswer, lockIdempotencyKey } from '../../prisma/store/access/stored-answers';
import {
  expectStatus,
  setUpRoom,
  startTestApi,
  type ApiAnswer,
  type ApiClient,
  type TestApi,
  type TestRoom,
} from '../support/api';

let api: TestApi;
let room: TestRoom;
beforeAll(async () => {
  api = await startTestApi();
  room = await setUpRoom(api);
});
afterAll(() => api.close());

let keys = 0;
const newKey = (): string => `key-${(keys += 1)}`;

function send(client: ApiClient, path: string, key: string, body?: string | object): Promise<ApiAnswer> {
  return client.send('POST', path, {
    headers: { 'idempotency-key': key, ...(body !== undefined && { 'content-type': 'application/json' }) },
    ...(body !== undefined && { body: typeof body === 'string' ? body : JSON.stringify(body) }),
  });
}
const events = (): string => `${room.path}/events`;
const message = (text: string) => ({ type: 'message', text });
const textsOf = async (): Promise<string[]> =>
  (await api.db.message.findMany({ where: { roomId: room.id } })).map(({ text }) => text);
const replayed = (answer: ApiAnswer): boolean => answer.headers.get('idempotency-replayed') === 'true';

test('a repeat with the same key and body gets the stored answer and has no effect', async () => {
  const key = newKey();
  const first = await send(room.larkspur.member, events(), key, message('once @scribe'));
  const again = await send(room.larkspur.member, events(), key, message('once @scribe'));
  expect([first.status, again.status, replayed(first), replayed(again)]).toEqual([201, 201, false, true]);
  expect(again.text).toBe(first.text);
  expect((await textsOf()).filter((text) => text === 'once @scribe')).toHaveLength(1);
  expect(await api.db.wake.count({ where: { messageId: first.body.id } })).toBe(1);
});

test('bodies are compared by their JSON values, not by their text', async () => {
  const key = newKey();
  const first = await send(room.larkspur.member, events(), key, '{"type":"message","text":"é 1","mentions":[]}');
  const spelled = '{ "mentions" : [ ],\n "text": "\\u00e9 1", "type": "message" }';
  const again = await send(room.larkspur.member, events(), key, spelled);
  expect([again.status, again.text, replayed(again)]).toEqual([201, first.text, true]);
});

test('another body with the same key gets 422 and stores nothing', async () => {
  const key = newKey();
  await send(room.larkspur.member, events(), key, message('the first'));
  for (const body of [message('the second'), { ...message('the first'), mentions: ['scribe'] }]) {
    const other = await send(room.larkspur.member, events(), key, body);
    expect([other.status, other.body.code]).toEqual([422, 'idempotency_key_reused']);
  }
  expect(await textsOf()).not.toContain('the second');
});

test('a key is valid for one path only, also if both bodies are empty', async () => {
  const key = newKey();
  const { admin } = room.larkspur;
  const agents = [];
  for (const slug of ['one', 'two']) {
    const body = { slug, name: slug, model: 'm', model_key: room.larkspur.modelKeyId };
    agents.push(await expectStatus(201, admin.post('/v1/agents', body)));
  }
  for (const { id } of agents) {
    const paused = await send(admin, `/v1/agents/${id}/pause`, key);
    expect([paused.status, paused.body.id, replayed(paused)]).toEqual([200, id, false]);
    expect((await expectStatus(200, admin.get(`/v1/agents/${id}`))).paused_at).not.toBeNull();
  }
});

test('a key is valid for one holder only, also within a company', async () => {
  const key = newKey();
  const ids = [];
  for (const client of [room.larkspur.member, room.tamarack.member, room.larkspur.service, room.larkspur.agent]) {
    const answer = await send(client, events(), key, message('mine'));
    expect([answer.status, replayed(answer)]).toEqual([201, false]);
    ids.push(answer.body.id);
  }
  expect(new Set(ids).size).toBe(4);
});

test('twenty concurrent requests write once, and each gets the result or 409 with Retry-After', async () => {
  const key = newKey();
  const answers = await Promise.all(
    Array.from({ length: 20 }, () => send(room.larkspur.member, events(), key, message('at once @scribe'))),
  );
  const [done, waiting] = [
    answers.filter(({ status }) => status === 201),
    answers.filter(({ status }) => status === 409),
  ];
  expect(done.length + waiting.length).toBe(20);
  expect(done.filter((answer) => !replayed(answer))).toHaveLength(1);
  expect(new Set(done.map(({ body }) => body.id)).size).toBe(1);
  for (const { body, headers } of waiting) {
    expect(body.code).toBe('request_in_flight');
    expect(Number(headers.get('retry-after'))).toBeGreaterThan(0);
  }
  expect(await api.db.wake.count({ where: { messageId: done[0]?.body.id } })).toBe(1);
  expect((await textsOf()).filter((text) => text === 'at once @scribe')).toHaveLength(1);
});

test('a request with the key of a running request gets 409, and later the stored answer', async () => {
  const key = newKey();
  const blocker = new pg.Client({ connectionString: api.databaseUrl });
  await blocker.connect();
  try {
    await blocker.query('BEGIN');
    await blocker.query('SELECT 1 FROM rooms WHERE id = $1 FOR UPDATE', [room.id]);
    const first = send(room.larkspur.member, events(), key, message('held up'));
    await waitFor(async () => {
      // Only locks of this database: other test files take such locks in their own databases.
      const { rows } = await blocker.query(`
        SELECT FROM pg_locks JOIN pg_database AS here ON here.oid = database AND datname = current_database()
        WHERE locktype = 'advisory' AND granted`);
      return rows.length > 0;
    });
    const second = await send(room.larkspur.member, events(), key, message('held up'));
    expect([second.status, second.body.code]).toEqual([409, 'request_in_flight']);
    await blocker.query('COMMIT');
    expect((await first).status).toBe(201);
    expect(replayed(await send(room.larkspur.member, events(), key, message('held up')))).toBe(true);
  } finally {
    await blocker.end();
  }
});

test.each([
  ['an invalid request', 400, () => room.path, message('')],
  ['a request to an unknown room', 404, () => '/v1/rooms/room_01h2xcejqtf2nbrexx3vqjhp41', message('hi')],
])('%s stores no answer, and the key stays unused', async (_what, status, path, body) => {
  const key = newKey();
  expect((await send(room.larkspur.member, `${path()}/events`, key, body)).status).toBe(status);
  const next = await send(room.larkspur.member, `${path()}/events`, key, body);
  expect([next.status, replayed(next)]).toEqual([status, false]);
  expect((await send(room.larkspur.member, events(), key, message(`after ${status}`))).status).toBe(201);
});

test('a write that fails midway leaves its key unused', async () => {
  const key = newKey();
  await api.db.$executeRaw`ALTER TABLE wakes ADD CONSTRAINT wakes_refuse_all CHECK (false) NOT VALID`;
  const failed = await send(room.larkspur.member, events(), key, message('@scribe later'));
  await api.db.$executeRaw`ALTER TABLE wakes DROP CONSTRAINT wakes_refuse_all`;
  expect(failed.status).toBe(500);
  const next = await send(room.larkspur.member, events(), key, message('@scribe later'));
  expect([next.status, replayed(next)]).toEqual([201, false]);
});

describe('a secret in an answer', () => {
  test.each([
    [
      'a company’s first admin key',
      () => api.client(api.operatorKey),
      '/v1/companies',
      { name: 'Alder' },
      'admin_key.token',
    ],
    ['a key', () => room.larkspur.admin, '/v1/keys', { kind: 'service', name: 'twice' }, 'token'],
    ['an invitation', () => room.larkspur.admin, 'invitations', undefined, 'code'],
  ])('is shown once: %s', async (_what, client, path, body, field) => {
    const key = newKey();
    const url = path.startsWith('/') ? path : `${room.path}/${path}`;
    const first = await send(client(), url, key, body);
    const again = await send(client(), url, key, body);
    expect([first.status, again.status, replayed(again)]).toEqual([201, 201, true]);
    expect(first.body).toHaveProperty(field, expect.stringMatching(/^dr_/));
    expect(again.body).toHaveProperty(field, null);
    const secret = field.split('.').reduce<never>((value, name) => value[name], first.body as never) as string;
    const kept = await api.db.storedAnswer.findMany({ where: { key } });
    expect(kept).toHaveLength(1);
    expect(JSON.stringify(kept)).not.toContain(secret);
  });
});

test.each([
  ['no characters', ''],
  ['a space', 'a b'],
  ['256 characters', 'x'.repeat(256)],
  ['10,000 characters', 'x'.repeat(10_000)],
  ['a letter outside ASCII', 'cl\u00e9'],
])('a key with %s is refused, and the detail names the maximum length', async (_what, key) => {
  const answer = await send(room.larkspur.member, events(), key, message('hi'));
  expect([answer.status, answer.body.code, answer.body.parameter]).toEqual([400, 'invalid_input', 'Idempotency-Key']);
  expect(answer.body.detail).toMatch(/255/);
});

test('a key of 255 characters is accepted', async () => {
  const key = 'x'.repeat(255);
  await send(room.larkspur.member, events(), key, message('long key'));
  expect(replayed(await send(room.larkspur.member, events(), key, message('long key')))).toBe(true);
});

test('PATCH ignores the key', async () => {
  const headers = { 'idempotency-key': newKey(), 'content-type': 'application/json' };
  for (const name of ['Renamed', 'Renamed again']) {
    const body = JSON.stringify({ name });
    const answer = await room.larkspur.admin.send('PATCH', room.path, { headers, body });
    expect([answer.status, answer.body.name]).toEqual([200, name]);
  }
});

test('a stored answer is returned for 30 days and then deleted', async () => {
  const key = newKey();
  const age = (days: number) =>
    api.db.$executeRaw`
      UPDATE stored_answers SET created_at = clock_timestamp() - make_interval(days => ${days}) WHERE key = ${key}`;
  await send(room.larkspur.member, events(), key, message('old'));
  await age(29);
  await deleteOldAnswers(api.db);
  expect(replayed(await send(room.larkspur.member, events(), key, message('old')))).toBe(true);
  await age(31);
  const fresh = await send(room.larkspur.member, events(), key, message('quite new'));
  expect([fresh.status, replayed(fresh)]).toEqual([201, false]);
  expect(replayed(await send(room.larkspur.member, events(), key, message('quite new')))).toBe(true);
  await age(31);
  await deleteOldAnswers(api.db);
  expect(await api.db.storedAnswer.count({ where: { key } })).toBe(0);
  expect(await api.db.storedAnswer.count()).toBeGreaterThan(0);
});

test('an answer is not stored if its transaction rolls back', async () => {
  const request = { holderId: 'key_1', path: '/v1/x', key: newKey(), bodySha256: Buffer.alloc(32) };
  const rolledBack = api.db.sqlTransaction(async (tx) => {
    expect(await lockIdempotencyKey(tx, request)).toEqual({ kind: 'unused' });
    await storeAnswer(tx, request, { status: 201, body: { id: 'x' }, subjectId: 'x' });
    throw new Error('rolled back');
  });
  await expect(rolledBack).rejects.toThrow('rolled back');
  expect(await api.db.sqlTransaction((tx) => lockIdempotencyKey(tx, request))).toEqual({ kind: 'unused' });
});

async function waitFor(condition: () => Promise<boolean>): Promise<void> {
  while (!(await condition())) await new Promise((resolve) => setTimeout(resolve, 10));
}
