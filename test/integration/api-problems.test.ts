// Invalid requests: every problem has one format, without a 500, a stack trace or text of the request.

import { gzipSync } from 'node:zlib';
import { newId } from '../../prisma/store/db/ids';
import { expectStatus, setUpRoom, startTestApi, type TestApi, type TestRoom } from '../support/api';

let api: TestApi;
let room: TestRoom;

beforeAll(async () => {
  api = await startTestApi();
  room = await setUpRoom(api);
});
afterAll(() => api.close());

const JSON_TYPE = { 'content-type': 'application/json' };
const events = (): string => `${room.path}/events`;
const countRows = async (): Promise<number[]> =>
  Promise.all([
    api.db.roomEvent.count(),
    api.db.message.count(),
    api.db.task.count(),
    api.db.memoryEntry.count(),
    api.db.wake.count(),
    api.db.room.count(),
    api.db.agent.count(),
  ]);

test('a problem has one format and contains the request id', async () => {
  const answer = await room.larkspur.member.send('POST', events(), {
    body: JSON.stringify({ type: 'message', text: 7 }),
    headers: { ...JSON_TYPE, 'x-request-id': 'my-request_1' },
  });
  expect(answer.status).toBe(400);
  expect(answer.headers.get('content-type')).toBe('application/problem+json; charset=utf-8');
  expect(answer.headers.get('x-request-id')).toBe('my-request_1');
  expect(answer.body).toEqual({
    type: 'urn:durable-room:problem:invalid_input',
    title: 'Invalid request',
    status: 400,
    code: 'invalid_input',
    detail: 'expected text',
    pointer: '/text',
    request_id: 'my-request_1',
  });
});

test('an unsafe request id is replaced', async () => {
  for (const id of ['a'.repeat(65), 'a b', '<script>', '']) {
    const answer = await room.larkspur.member.send('GET', '/v1/nothing', { headers: { 'x-request-id': id } });
    expect(answer.body.request_id).not.toBe(id);
    expect(answer.body.request_id).toMatch(/^[0-9a-f-]{36}$/);
  }
});

test('headers forbid caching and do not name the server software', async () => {
  const answer = await room.larkspur.member.get('/v1/rooms');
  expect(answer.headers.get('cache-control')).toBe('no-store');
  expect(answer.headers.get('x-powered-by')).toBeNull();
  expect(answer.headers.get('etag')).toBeNull();
  expect(answer.headers.get('x-content-type-options')).toBe('nosniff');
});

describe('an unusable body', () => {
  const big = JSON.stringify({ type: 'message', text: 'x'.repeat(5_000_000) });
  const cases: readonly (readonly [string, number, string, string | Uint8Array, Record<string, string>])[] = [
    ['half an object', 400, 'malformed_body', '{"type":"message","text":"secret-canary', JSON_TYPE],
    ['a byte-order mark', 400, 'malformed_body', '\uFEFF{"type":"message","text":"hi"}', JSON_TYPE],
    ['nothing', 400, 'malformed_body', '', JSON_TYPE],
    ['an empty array', 400, 'invalid_input', '[]', JSON_TYPE],
    ['a string', 400, 'invalid_input', '"message"', JSON_TYPE],
    ['null', 400, 'invalid_input', 'null', JSON_TYPE],
    ['5 MB', 413, 'body_too_large', big, JSON_TYPE],
    [
      'a gzip that unpacks to 100 MB',
      413,
      'body_too_large',
      gzipSync(Buffer.alloc(100_000_000)),
      { ...JSON_TYPE, 'content-encoding': 'gzip' },
    ],
    ['an invalid gzip', 400, 'malformed_body', 'no gzip', { ...JSON_TYPE, 'content-encoding': 'gzip' }],
    ['an unknown encoding', 415, 'unsupported_media_type', '{}', { ...JSON_TYPE, 'content-encoding': 'compress' }],
    ['10,000 brackets', 400, 'invalid_input', '['.repeat(10_000) + ']'.repeat(10_000), JSON_TYPE],
    ['10,000 brackets within', 400, 'invalid_input', `{"text":${'['.repeat(10_000)}${']'.repeat(10_000)}}`, JSON_TYPE],
    ['unclosed brackets', 400, 'malformed_body', '['.repeat(10_000), JSON_TYPE],
    ['400,000 values', 400, 'invalid_input', `{"mentions":[${'0,'.repeat(400_000)}0]}`, JSON_TYPE],
    [
      'another content type',
      415,
      'unsupported_media_type',
      '{"type":"message","text":"hi"}',
      { 'content-type': 'text/plain' },
    ],
    ['no content type', 415, 'unsupported_media_type', Buffer.from('{"type":"message","text":"hi"}'), {}],
    [
      'another charset',
      415,
      'unsupported_media_type',
      '{"type":"message","text":"hi"}',
      { 'content-type': 'application/json; charset=iso-8859-1' },
    ],
    [
      'UTF-16',
      415,
      'unsupported_media_type',
      Buffer.from('{"type":"message","text":"hi"}', 'utf16le'),
      { 'content-type': 'application/json; charset=utf-16' },
    ],
    ['bytes that are not UTF-8', 400, 'malformed_body', Buffer.from([0x7b, 0x22, 0xff, 0x22, 0x7d]), JSON_TYPE],
  ];

  test.each(cases)('%s: %i %s', async (_name, status, code, body, headers) => {
    const before = await countRows();
    const answer = await room.larkspur.member.send('POST', events(), { body, headers });
    expect([answer.status, answer.body.code]).toEqual([status, code]);
    expect(answer.headers.get('content-type')).toContain('application/problem+json');
    expect(answer.text).not.toMatch(/secret-canary|node_modules|\bat .*\.(js|ts)|SyntaxError|Unexpected/);
    expect(await countRows()).toEqual(before);
    await expectStatus(200, room.larkspur.member.get('/v1/rooms'));
  });

  test('another spelling of the charset is accepted', async () => {
    for (const type of ['application/json; charset=UTF-8', 'Application/JSON;charset="utf-8"']) {
      const body = JSON.stringify({ type: 'message', text: 'hi' });
      const answer = await room.larkspur.member.send('POST', events(), { body, headers: { 'content-type': type } });
      expect(answer.status).toBe(201);
    }
  });
});

describe('characters that Postgres cannot store', () => {
  test.each([
    ['a value (NUL)', '{"type":"message","text":"a\\u0000b"}', '/text'],
    ['a value (lone high surrogate)', '{"type":"message","text":"a\\ud800b"}', '/text'],
    ['a value (lone low surrogate)', '{"type":"message","text":"\\udc00"}', '/text'],
    ['a list (NUL)', '{"type":"message","text":"hi","mentions":["scribe","\\u0000"]}', '/mentions/1'],
    ['a key (NUL)', '{"type":"message","text":"hi","a\\u0000b":1}', ''],
    ['a key (lone surrogate)', '{"type":"message","text":"hi","\\ud83d":1}', ''],
  ])('in %s are refused', async (_name, body, pointer) => {
    const answer = await room.larkspur.member.send('POST', events(), { body, headers: JSON_TYPE });
    expect(answer.status).toBe(400);
    expect(answer.body).toMatchObject({ code: 'invalid_input', pointer });
  });

  test('a pair of surrogates is accepted as one character', async () => {
    const body = '{"type":"message","text":"\\ud83d\\ude80 go"}';
    const answer = await room.larkspur.member.send('POST', events(), { body, headers: JSON_TYPE });
    expect(answer.status).toBe(201);
    const { text } = await expectStatus(200, room.larkspur.member.get(`${room.path}/messages/${answer.body.id}`));
    expect(text).toBe('🚀 go');
  });

  test.each([
    ['/v1/rooms/%00', 'path'],
    ['/v1/rooms/%ED%A0%80', 'path'],
    ['/v1/rooms/%E0%A4%A', 'path'],
    ['/v1/rooms?cursor=%00', 'cursor'],
    ['/v1/rooms?cursor=%ED%A0%80', 'query'],
    ['/v1/rooms?%00=1', 'query'],
    ['/v1/rooms?limit=%', 'query'],
  ])('in %s are refused', async (path, parameter) => {
    const answer = await room.larkspur.member.get(path);
    expect([answer.status, answer.body.parameter]).toEqual([400, parameter]);
  });
});

describe('names of the object prototype', () => {
  test.each([
    '{"type":"message","text":"hi","__proto__":{"isAdmin":true}}',
    '{"type":"message","text":"hi","constructor":{"prototype":{"isAdmin":true}}}',
    '{"type":"task","to":"scout","goal":"x","memory_refs":[{"__proto__":{"isAdmin":true}}]}',
    '{"type":"message","text":"hi","mentions":{"prototype":1}}',
  ])('%s is refused', async (body) => {
    const answer = await room.larkspur.member.send('POST', events(), { body, headers: JSON_TYPE });
    expect([answer.status, answer.body.code]).toEqual([400, 'invalid_input']);
    expect(({} as Record<string, unknown>)['isAdmin']).toBeUndefined();
  });

  test('are refused as parameters', async () => {
    for (const name of ['__proto__', 'constructor', '__proto__[x]']) {
      expect((await room.larkspur.member.get(`/v1/rooms?${name}=1`)).status).toBe(400);
    }
  });
});

describe('fields and parameters', () => {
  test('that are unknown are refused and named', async () => {
    const body = { type: 'message', text: 'hi', wakes: [], hop: 0 };
    const answer = await expectStatus(400, room.larkspur.member.post(events(), body));
    expect(answer).toMatchObject({ detail: 'unknown field', pointer: '/wakes' });
    expect(answer.errors.map((fault: { pointer: string }) => fault.pointer)).toEqual(['/wakes', '/hop']);
    const list = await expectStatus(400, room.larkspur.member.get('/v1/rooms?status=open'));
    expect(list).toMatchObject({ detail: 'unknown parameter', parameter: 'status' });
  });

  test('are not repeated in the answer, because they may be a secret', async () => {
    const secret = 'sk-live-0123456789abcdefghijklmnopqrstuvwxyz';
    const answer = await room.larkspur.admin.post('/v1/model-keys', {
      [secret]: secret,
      name: 'x',
      key: `${secret}\n${secret}`,
      provider: secret,
    });
    expect(answer.status).toBe(400);
    expect(answer.text).not.toContain('sk-live');
  });

  test.each([
    ['limit=0', 'limit'],
    ['limit=201', 'limit'],
    ['limit=-1', 'limit'],
    ['limit=1e2', 'limit'],
    ['limit=', 'limit'],
    ['limit=5&limit=6', 'limit'],
    ['cursor=nonsense', 'cursor'],
    ['order=down', 'order'],
  ])('?%s is refused', async (query, parameter) => {
    expect(await expectStatus(400, room.larkspur.member.get(`/v1/rooms?${query}`))).toMatchObject({ parameter });
  });

  test.each([
    ['/v1/runs?since=yesterday', 'since'],
    ['/v1/runs?until=2026-02-30T00:00:00Z', 'until'],
    ['/v1/runs?ending=happy', 'ending'],
    ['/v1/runs?room=run_01kb7q0000e00000000000000a', 'room'],
    ['/v1/wakes?state=open', 'state'],
    ['/v1/wakes?agent=agent_1', 'agent'],
  ])('%s is refused', async (path, parameter) => {
    expect(await expectStatus(400, room.larkspur.member.get(path))).toMatchObject({ parameter });
  });

  test('a route without fields accepts no body or an empty object', async () => {
    const path = `/v1/agents/${room.larkspur.agentId}/resume`;
    await expectStatus(200, room.larkspur.member.post(path));
    await expectStatus(200, room.larkspur.member.post(path, {}));
    expect(await expectStatus(400, room.larkspur.member.post(path, { force: true }))).toMatchObject({
      pointer: '/force',
    });
    expect((await room.larkspur.member.post(path, [])).status).toBe(400);
  });
});

describe('routes and methods', () => {
  test.each(['/', '/v2/rooms', '/v1', '/favicon.ico'])('%s is 404 or 401', async (path) => {
    const answer = await api.client().get(path);
    expect([401, 404]).toContain(answer.status);
    expect(answer.headers.get('content-type')).toContain('application/problem+json');
  });

  test('that are unknown give 404 to a caller with a key', async () => {
    for (const path of ['/v1/nothing', '/v1/rooms/', '/v1/Rooms', `${room.path}/nothing`]) {
      expect(await expectStatus(404, room.larkspur.member.get(path))).toMatchObject({ code: 'not_found' });
    }
  });

  test.each([
    ['PUT', '/v1/rooms', 'POST, GET, HEAD'],
    ['DELETE', '/v1/rooms', 'POST, GET, HEAD'],
    ['GET', '/v1/agents/agent_01kb7q0000e00000000000000a/pause', 'POST'],
    ['POST', '/v1/runs', 'GET, HEAD'],
    ['POST', '/healthz', 'GET, HEAD'],
  ])('%s %s gives 405 and names the allowed methods', async (method, path, allow) => {
    const answer = await room.larkspur.member.send(method, path);
    expect([answer.status, answer.body.code, answer.headers.get('allow')]).toEqual([405, 'method_not_allowed', allow]);
  });

  test('ids of another format or kind give 404, like unknown ids', async () => {
    for (const id of ['1', 'room', newId('run'), `${room.id}x`, room.id.toUpperCase(), '..%2F..%2Fetc']) {
      const answer = await room.larkspur.member.get(`/v1/rooms/${id}`);
      const unknown = await room.larkspur.member.get(`/v1/rooms/${newId('room')}`);
      expect(answer.status).toBe(404);
      expect({ ...answer.body, request_id: null }).toEqual({ ...unknown.body, request_id: null });
    }
  });

  test('HEAD answers like GET without a body', async () => {
    const answer = await room.larkspur.member.send('HEAD', '/v1/rooms');
    expect([answer.status, answer.text]).toEqual([200, '']);
  });
});

test('the log has the key and the route of a request, and none of its content', async () => {
  await room.larkspur.member.post(events(), { type: 'message', text: 'log-canary' });
  await room.larkspur.member.get(`/v1/rooms/log-canary?cursor=log-canary`);
  const logged = api.logged();
  expect(logged).not.toMatch(/log-canary|dr_person_|authorization/i);
  const line = logged
    .trim()
    .split('\n')
    .map((text) => JSON.parse(text))
    .find((entry) => entry.route === '/v1/rooms/:room/events' && entry.method === 'POST');
  expect(line).toMatchObject({
    msg: 'request',
    status: expect.any(Number),
    ms: expect.any(Number),
    key: expect.stringMatching(/^key_/),
    request: expect.any(String),
  });
});
