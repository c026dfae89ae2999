// /mcp over HTTP: access, accepted bodies, protocol versions, and that requests do not wait for or see each other.

import { LATEST_PROTOCOL_VERSION, SUPPORTED_PROTOCOL_VERSIONS } from '@modelcontextprotocol/sdk/types.js';
import { TOOLS } from '../../api/mcp/tools';
import {
  expectStatus,
  setUpRoom,
  startTestApi,
  type ApiAnswer,
  type Json,
  type TestApi,
  type TestRoom,
} from '../support/api';
import { agentUser, closeMcpUsers, connectMcp, keyOf, memberUser, transportTo } from '../support/mcp';

let api: TestApi;
let room: TestRoom;

beforeAll(async () => {
  api = await startTestApi();
  room = await setUpRoom(api);
});
afterEach(closeMcpUsers);
afterAll(() => api.close());

const JSON_RPC = { 'content-type': 'application/json', accept: 'application/json, text/event-stream' };

function post(
  client: { send: TestRoom['larkspur']['member']['send'] },
  message: unknown,
  headers = {},
): Promise<ApiAnswer> {
  const body = typeof message === 'string' ? message : JSON.stringify(message);
  return client.send('POST', '/mcp', { body, headers: { ...JSON_RPC, ...headers } });
}

const request = (method: string, params: object = {}, id: number | string = 1): object => ({
  jsonrpc: '2.0',
  id,
  method,
  params,
});
const call = (name: string, args: object, id = 1): object => request('tools/call', { name, arguments: args }, id);
const initialize = (protocolVersion: string): object =>
  request('initialize', { protocolVersion, capabilities: {}, clientInfo: { name: 'old', version: '1' } });

test.each([...SUPPORTED_PROTOCOL_VERSIONS])(
  'a client with protocol version %s is answered in that version',
  async (version) => {
    const { member } = room.larkspur;
    const { result } = await expectStatus(200, post(member, initialize(version)));
    expect(result.protocolVersion).toBe(version);
    const headers = { 'mcp-protocol-version': version };
    expect((await post(member, { jsonrpc: '2.0', method: 'notifications/initialized' }, headers)).status).toBe(202);
    const listed = await expectStatus(200, post(member, call('list_rooms', {}), headers));
    expect(listed.result.structuredContent.data.map(({ id }: Json) => id)).toEqual([room.id]);
  },
);

test('the versions of 2024 and 2025 are supported', () => {
  expect(SUPPORTED_PROTOCOL_VERSIONS).toEqual(expect.arrayContaining(['2024-11-05', '2025-03-26', '2025-06-18']));
});

test('an unknown version is answered with the newest, and refused in later requests', async () => {
  const { result } = await expectStatus(200, post(room.larkspur.member, initialize('1999-12-31')));
  expect(result.protocolVersion).toBe(LATEST_PROTOCOL_VERSION);
  const headers = { 'mcp-protocol-version': '1999-12-31' };
  expect((await post(room.larkspur.member, request('tools/list'), headers)).status).toBe(400);
});

test('a batch, which 2025-03-26 allows, is answered call by call', async () => {
  const headers = { 'mcp-protocol-version': '2025-03-26' };
  const batch = [call('list_rooms', {}, 1), call('no_such_tool', {}, 2), call('get_messages', { room: 'x' }, 3)];
  const answers = await expectStatus(200, post(room.larkspur.member, batch, headers));
  const byId = new Map(answers.map((answer: Json) => [answer.id, answer]));
  expect(byId.get(1)).toMatchObject({ result: { structuredContent: { data: [{ id: room.id }] } } });
  expect(byId.get(2)).toMatchObject({ error: { code: -32602 } });
  expect(byId.get(3)).toMatchObject({ result: { isError: true } });
});

test('a request without a valid key, or with the operator’s key, is refused', async () => {
  expect(await post(api.client(), request('tools/list'))).toMatchObject({
    status: 401,
    body: { code: 'unauthenticated' },
  });
  expect(await post(api.client('dr_agent_unknown'), request('tools/list'))).toMatchObject({ status: 401 });
  expect(await post(api.client(api.operatorKey), request('tools/list'))).toMatchObject({
    status: 403,
    body: { code: 'not_allowed' },
  });
});

test('a request with an Origin header is refused before its key is checked', async () => {
  for (const origin of ['https://attacker.example', api.url, 'null']) {
    const answer = await post(room.larkspur.member, request('tools/list'), { origin });
    expect([answer.status, answer.body.code]).toEqual([403, 'not_allowed']);
  }
  expect((await post(api.client(), request('tools/list'), { origin: api.url })).status).toBe(403);
});

test('there are no sessions', async () => {
  const opened = await post(room.larkspur.member, initialize(LATEST_PROTOCOL_VERSION));
  expect(opened.headers.get('mcp-session-id')).toBeNull();
  for (const method of ['GET', 'DELETE', 'PUT']) {
    const answer = await room.larkspur.member.send(method, '/mcp', { headers: { accept: 'text/event-stream' } });
    expect([answer.status, answer.body.code, answer.headers.get('allow')]).toEqual([405, 'method_not_allowed', 'POST']);
  }
});

test.each([
  ['more than a megabyte', JSON.stringify({ pad: 'x'.repeat(1_100_000) }), 413],
  ['half a message', '{"jsonrpc":', 400],
  ['an empty body', '', 400],
  ['an object that is not a message', '{"hello":"there"}', 400],
  ['a list of too many messages', JSON.stringify(Array.from({ length: 101 }, (_, id) => request('ping', {}, id))), 400],
  ['two initialize messages', JSON.stringify([initialize('2025-03-26'), initialize('2025-03-26')]), 400],
])('%s is refused', async (_case, body, status) => {
  expect((await post(room.larkspur.member, body)).status).toBe(status);
});

test('a body with another content type, and a client that does not accept JSON, are refused', async () => {
  const body = JSON.stringify(request('tools/list'));
  const { member } = room.larkspur;
  expect((await post(member, body, { 'content-type': 'text/plain' })).status).toBe(415);
  expect((await post(member, body, { accept: 'text/html' })).status).toBe(406);
});

test('an error does not repeat the arguments of the call', async () => {
  const { member } = room.larkspur;
  const canary = 'canary-4711';
  const answers = [
    await post(member, call(canary, {})),
    await post(member, call('post_message', { room: canary, text: 5, [canary + '!']: 1 })),
    await post(member, request(canary)),
  ];
  for (const { text } of answers.slice(0, 2)) expect(text).not.toContain(canary);
  expect(answers[2]?.body.error.code).toBe(-32601);
  expect(api.logged()).not.toContain(canary);
});

test('many concurrent clients each see their own rooms, and each write is stored once', async () => {
  const other = await setUpRoom(api, { suffix: '-2' });
  const users = await Promise.all(
    [room, other].flatMap((each) =>
      Array.from({ length: 4 }, async () => ({ each, user: await memberUser(api, each.larkspur, 'http') })),
    ),
  );
  await Promise.all(
    users.map(async ({ each, user }, index) => {
      const rooms = user.call('list_rooms');
      const posts = Promise.all(
        Array.from({ length: 5 }, (_, n) =>
          user.call('post_message', { room: each.id, text: `${index}/${n}`, idempotency_key: `${index}/${n}` }),
        ),
      );
      expect((await rooms).data.data.map(({ id }: Json) => id)).toEqual([each.id]);
      for (const { data } of await posts) expect(data).toMatchObject({ replayed: false });
    }),
  );
  for (const each of [room, other]) {
    const { data } = await expectStatus(200, each.larkspur.member.get(`${each.path}/messages?limit=200`));
    const own = users.flatMap((user, index) => (user.each === each ? [index] : []));
    const expected = own.flatMap((index) => Array.from({ length: 5 }, (_, n) => `${index}/${n}`));
    expect(data.map((message: Json) => message.text).sort()).toEqual(expected.sort());
  }
});

test('a revoked key or a suspended company is refused at the next call', async () => {
  const own = await setUpRoom(api, { suffix: '-3' });
  const key = await keyOf(own.larkspur, { kind: 'service' });
  const user = await connectMcp(transportTo(api.url, key.token, 'http'));
  expect((await user.call('post_message', { room: own.id, text: 'before the key is revoked' })).problem).toBeNull();
  await expectStatus(204, own.larkspur.admin.delete(`/v1/keys/${key.id}`));
  await expect(user.call('post_message', { room: own.id, text: 'too late' })).rejects.toMatchObject({ code: 401 });

  const agent = await agentUser(api, own.larkspur, 'http');
  expect((await agent.call('post_message', { room: own.id, text: 'before the suspension' })).problem).toBeNull();
  await expectStatus(200, api.client(api.operatorKey).post(`/v1/companies/${own.larkspur.id}/suspend`));
  await expect(agent.call('list_rooms')).rejects.toMatchObject({ code: 403 });
  const { data } = await expectStatus(200, own.tamarack.member.get(`${own.path}/messages`));
  expect(data.map((message: Json) => message.text)).toEqual(['before the key is revoked', 'before the suspension']);
});

test('calls count against the rate limit of their key, also in a batch', async () => {
  const limited = await startTestApi({ requestsPerMinute: 60 });
  try {
    const own = await setUpRoom(limited);
    const { token } = await keyOf(own.larkspur, { kind: 'service' });
    const client = limited.client(token);
    const batch = Array.from({ length: 100 }, (_, id) => call('post_message', { room: own.id, text: 'again' }, id));
    const answers = await expectStatus(200, post(client, batch));
    const refused = answers.filter((answer: Json) => answer.result.isError);
    expect(refused).toHaveLength(40);
    expect(JSON.parse(refused[0].result.content[0].text)).toMatchObject({
      code: 'rate_limited',
      retry_after_seconds: expect.any(Number),
    });
    const statuses = [];
    for (let n = 0; n < 60; n += 1) statuses.push((await post(client, request('ping'))).status);
    expect(statuses.slice(0, 59).every((status) => status === 200)).toBe(true);
    expect(statuses.at(-1)).toBe(429);
  } finally {
    await limited.close();
  }
});

test('a request to /mcp and the requests that it causes have one request id in the log', async () => {
  const headers = { 'x-request-id': 'one-name' };
  await expectStatus(200, post(room.larkspur.member, call('get_messages', { room: room.id }), headers));
  const lines = api
    .logged()
    .split('\n')
    .filter((line) => line.includes('one-name'))
    .map((line) => JSON.parse(line).route);
  expect(lines.sort()).toEqual(['/mcp', '/v1/rooms/:room/messages']);
});

test('there is no tool to decide, delete, redact, invite or manage', () => {
  expect(TOOLS.map(({ name }) => name)).toEqual([
    'list_rooms',
    'get_messages',
    'get_inbox',
    'read_memory',
    'write_memory',
    'post_message',
    'send_task',
    'respond_to_task',
    'get_task',
    'list_runs',
    'get_run',
  ]);
});
