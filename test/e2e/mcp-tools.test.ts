// Every tool through the official client, over HTTP and stdio: results and problems equal those of the API's routes, and a
// call whose answer was lost can be repeated.

import type { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import type { JSONRPCMessage } from '@modelcontextprotocol/sdk/types.js';
import { NOTICE } from '../../api/mcp/tool';
import { claimMessage } from '../../prisma/store/runs/claims';
import { deliverWakes } from '../../prisma/store/runs/wakes';
import { expectStatus, setUpRoom, startTestApi, type Json, type TestApi, type TestRoom } from '../support/api';
import { until } from '../support/run-waits';
import { holdTransaction, untilWaiting } from '../support/store-runs';
import {
  agentKeyOf,
  agentUser,
  closeMcpUsers,
  connectMcp,
  memberUser,
  transportTo,
  type McpUser,
} from '../support/mcp';

let api: TestApi;
let room: TestRoom;
let rooms = 0;

beforeAll(async () => {
  api = await startTestApi();
});
beforeEach(async () => {
  room = await setUpRoom(api, { suffix: `-${(rooms += 1)}` });
});
afterEach(closeMcpUsers);
afterAll(() => api.close());

/** Arguments that a tool refuses, with the pointer of the problem. ROOM is replaced by the test's room. */
const INVALID_CALLS: readonly [string, Json, string][] = [
  ['post_message', { text: 'no room' }, '/room'],
  ['post_message', { room: 'room_1', text: 'an invalid room id' }, '/room'],
  ['post_message', { room: 'ROOM', text: '' }, '/text'],
  ['post_message', { room: 'ROOM', text: 'x'.repeat(32_001) }, '/text'],
  ['post_message', { room: 'ROOM', text: 'a\0b' }, '/text'],
  ['post_message', { room: 'ROOM', text: 'unknown agent', mentions: ['unknown'] }, '/mentions/0'],
  ['post_message', { room: 'ROOM', text: 'hi', hop: 0 }, '/hop'],
  ['post_message', { room: 'ROOM', text: 'hi', type: 'task_verdict' }, '/type'],
  ['post_message', { room: 'ROOM', text: 'hi', idempotency_key: 'a b' }, '/idempotency_key'],
  ['send_task', { room: 'ROOM', to: 'unknown', goal: 'hi' }, '/to'],
  ['send_task', { room: 'ROOM', to: 'scout', goal: 'hi', deadline: 'soon' }, '/deadline'],
  ['write_memory', { room: 'ROOM', category: 'gossip', content: 'hi' }, '/category'],
  ['respond_to_task', { room: 'ROOM', task: 'task_1', state: 'done', result: 'hi' }, '/task'],
  ['get_messages', { room: 'ROOM', limit: 201 }, '/limit'],
  ['get_messages', { room: 'ROOM', limit: '5' }, '/limit'],
  ['get_inbox', { room: 'ROOM', cursor: 'x' }, '/cursor'],
  ['get_task', { room: 'ROOM', task: '../../runs' }, '/task'],
];

const get = (path: string): Promise<Json> => expectStatus(200, room.larkspur.member.get(path));

describe.each(['http', 'stdio'] as const)('over %s', (kind) => {
  test('tools/list returns each tool with its schemas and hints', async () => {
    const { client } = await agentUser(api, room.larkspur, kind);
    const { tools } = await client.listTools();
    const hints = Object.fromEntries(
      tools.map(({ name, annotations }) => [
        name,
        [
          annotations?.readOnlyHint,
          annotations?.destructiveHint,
          annotations?.idempotentHint,
          annotations?.openWorldHint,
        ],
      ]),
    );
    const reads = [true, false, true, true];
    const adds = [false, false, false, true];
    expect(hints).toEqual({
      list_rooms: reads,
      get_messages: reads,
      get_inbox: [false, false, true, true],
      read_memory: reads,
      write_memory: adds,
      post_message: adds,
      send_task: adds,
      respond_to_task: adds,
      get_task: reads,
      list_runs: reads,
      get_run: reads,
    });
    for (const tool of tools) {
      expect(tool.inputSchema).toMatchObject({ type: 'object', additionalProperties: false });
      expect(tool.outputSchema).toMatchObject({ type: 'object', additionalProperties: false });
      expect('idempotency_key' in (tool.inputSchema.properties ?? {})).toBe(
        hints[tool.name] === adds || !hints[tool.name]?.[2],
      );
    }
    expect(tools.find(({ name }) => name === 'get_inbox')?.description).toContain('changes to in_progress');
    expect(client.getInstructions()).toContain('not as instructions');
  });

  test('two agents and a person work together in a room with the tools alone', async () => {
    const person = await memberUser(api, room.larkspur, kind);
    const scribe = await agentUser(api, room.larkspur, kind);
    const scout = await agentUser(api, room.tamarack, kind);

    const listed = await callTool(scribe, 'list_rooms');
    expect(listed).toEqual({ notice: NOTICE, ...(await expectStatus(200, room.larkspur.agent.get('/v1/rooms'))) });
    expect(listed.data[0].id).toBe(room.id);

    const posted = await callTool(person, 'post_message', { room: room.id, text: 'Where do we start, @scribe?' });
    expect(posted).toMatchObject({ replayed: false, wakes: [{ agent: room.larkspur.agentId, status: 'pending' }] });
    const line = { room: room.id, category: 'decision', content: 'We start at noon.', tags: ['plan'] };
    const { id: entry } = await callTool(scribe, 'write_memory', line);
    const task = await callTool(scribe, 'send_task', {
      room: room.id,
      to: 'Scout',
      goal: 'Find a hall',
      acceptance_criteria: ['It seats 40'],
      priority: 'high',
      deadline: '2026-08-08',
      memory_refs: [entry],
    });

    const inbox = await callTool(scout, 'get_inbox', { room: room.id });
    expect(inbox).toMatchObject({ notice: NOTICE, more_tasks: false, messages: [{ task: task.id }] });
    expect(inbox.tasks).toEqual([await get(`${room.path}/tasks/${task.id}`)]);
    expect(inbox.tasks[0]).toMatchObject({ id: task.id, state: 'in_progress', goal: 'Find a hall' });

    await callTool(scout, 'respond_to_task', { room: room.id, task: task.id, state: 'done', result: 'The old mill' });
    const { task: answered } = await callTool(scribe, 'get_task', { room: room.id, task: task.id });
    expect(answered).toEqual(await get(`${room.path}/tasks/${task.id}`));
    expect(answered).toMatchObject({ state: 'done', result: 'The old mill' });
    const news = await callTool(scout, 'get_inbox', { room: room.id, cursor: inbox.next_cursor });
    expect([news.tasks, news.messages]).toEqual([[], []]);

    expect(await callTool(scout, 'read_memory', { room: room.id, category: 'decision' })).toEqual({
      notice: NOTICE,
      ...(await get(`${room.path}/memory?category=decision`)),
    });
    const messages = await callTool(scout, 'get_messages', { room: room.id });
    expect(messages).toEqual({ notice: NOTICE, ...(await get(`${room.path}/messages`)) });
    for (const message of messages.data) {
      expect(message).toMatchObject({ company: expect.any(String), author: { name: expect.any(String) } });
      expect(Date.parse(message.created_at)).not.toBeNaN();
    }
  });

  test('list_runs and get_run return the answers of the routes, for the own company and for another', async () => {
    const posted = await expectStatus(
      201,
      room.tamarack.member.post(`${room.path}/events`, { type: 'message', text: '@scribe hello' }),
    );
    await deliverWakes(api.db, 100);
    const wake = { agentId: room.larkspur.agentId, messageId: posted.id };
    const execution = { workflowId: `wake/${wake.agentId}/${wake.messageId}`, temporalRunId: posted.id };
    const claim = await claimMessage(api.db, execution, wake, { timeLimitMs: 300_000 });
    const runId = (claim as { runId: string }).runId;
    for (const company of [room.larkspur, room.tamarack]) {
      const user = await memberUser(api, company, kind);
      const { data } = await callTool(user, 'list_runs', {
        room: room.id,
        state: 'open',
        since: '2020-01-01T00:00:00Z',
      });
      expect(data).toEqual((await expectStatus(200, company.member.get(`/v1/runs?room=${room.id}`))).data);
      const { run } = await callTool(user, 'get_run', { run: runId });
      expect(run).toEqual(await expectStatus(200, company.member.get(`/v1/runs/${runId}`)));
    }
  });

  test('read_memory filters and searches as the route does', async () => {
    const user = await memberUser(api, room.larkspur, kind);
    const lines = [
      { category: 'fact', content: 'The old mill seats forty', tags: ['hall'] },
      { category: 'decision', content: 'We start at noon' },
    ];
    const ids: string[] = [];
    for (const line of lines) ids.push((await callTool(user, 'write_memory', { room: room.id, ...line })).id);
    const deprecation = { type: 'memory_deprecation', entry: ids[1] };
    await expectStatus(201, room.larkspur.member.post(`${room.path}/events`, deprecation));
    const asked: [Json, string, string[]][] = [
      [{}, '', [ids[0] as string]],
      [{ include_deprecated: true }, '?include_deprecated=true', ids],
      [{ include_deprecated: true, category: 'decision' }, '?include_deprecated=true&category=decision', ids.slice(1)],
      [{ q: 'mill', tag: 'hall', since: '2020-01-01T00:00:00Z' }, '?q=mill', ids.slice(0, 1)],
      [{ q: 'noon' }, '?q=noon', []],
    ];
    for (const [args, query, expected] of asked) {
      const found = await callTool(user, 'read_memory', { room: room.id, ...args });
      expect([args, found.data.map(({ id }: Json) => id)]).toEqual([args, expected]);
      expect(found).toEqual({ notice: NOTICE, ...(await get(`${room.path}/memory${query}`)) });
    }
    const { problem } = await user.call('read_memory', { room: room.id, q: 'mill', order: 'asc' });
    expect(problem).toMatchObject({ code: 'invalid_input', parameter: 'order' });
  });

  test('a list is read page by page, in both orders', async () => {
    const user = await memberUser(api, room.larkspur, kind);
    const texts = ['one', 'two', 'three', 'four', 'five'];
    for (const text of texts) await callTool(user, 'post_message', { room: room.id, text });
    for (const order of ['asc', 'desc']) {
      const seen: string[] = [];
      let cursor: string | null = null;
      do {
        const args: Json = { room: room.id, limit: 2, order, ...(cursor !== null && { cursor }) };
        const page = await callTool(user, 'get_messages', args);
        seen.push(...page.data.map((message: Json) => message.text));
        cursor = page.next_cursor;
      } while (cursor !== null);
      expect(order === 'asc' ? seen : seen.reverse()).toEqual(texts);
    }
  });

  test('invalid arguments are refused with a pointer, and nothing is written', async () => {
    const user = await agentUser(api, room.larkspur, kind);
    for (const [tool, args, pointer] of INVALID_CALLS) {
      const given: Json = { ...args, ...('room' in args && args.room === 'ROOM' && { room: room.id }) };
      const { code, status, detail, pointer: got } = (await user.call(tool, given)).problem;
      expect([tool, code, status, got]).toEqual([tool, 'invalid_input', 400, pointer]);
      expect(detail).toEqual(expect.any(String));
    }
    const written = (await get(`${room.path}/events`)).data.map(({ type }: Json) => type);
    expect(new Set(written)).toEqual(new Set(['member_joined', 'agent_added']));
  });

  test('a cursor of another list is refused, and the problem names the parameter', async () => {
    const user = await memberUser(api, room.larkspur, kind);
    const { problem } = await user.call('list_rooms', { cursor: 'x' });
    expect(problem).toMatchObject({ code: 'invalid_input', parameter: 'cursor' });
  });

  test('an unknown tool is a protocol error', async () => {
    const { client } = await memberUser(api, room.larkspur, kind);
    for (const name of ['approve', 'toString', '__proto__']) {
      await expect(client.callTool({ name, arguments: {} })).rejects.toMatchObject({ code: -32602 });
    }
  });

  test('an idempotency_key writes once for all clients of one key, over MCP and over HTTP, and is refused for another body', async () => {
    const token = await agentKeyOf(room.larkspur);
    const [one, two] = [
      await connectMcp(transportTo(api.url, token, kind)),
      await connectMcp(transportTo(api.url, token, kind)),
    ];
    const writes: [string, Json, string][] = [
      ['post_message', { text: 'once' }, 'message'],
      ['write_memory', { category: 'fact', content: 'once' }, 'memory'],
      ['send_task', { to: 'scout', goal: 'once' }, 'task'],
    ];
    for (const [tool, fields, type] of writes) {
      const args = { room: room.id, ...fields, idempotency_key: `the ${type}`.replace(' ', '-') };
      const first = await callTool(one, tool, args);
      expect(await callTool(two, tool, args)).toEqual({ ...first, replayed: true });
      const headers = { 'idempotency-key': args.idempotency_key, 'content-type': 'application/json' };
      const body = JSON.stringify({ type, ...fields });
      const rest = await api.client(token).send('POST', `${room.path}/events`, { body, headers });
      expect([rest.headers.get('idempotency-replayed'), rest.body.id]).toEqual(['true', first.id]);
      const text = tool === 'send_task' ? 'goal' : tool === 'write_memory' ? 'content' : 'text';
      const { problem } = await one.call(tool, { ...args, [text]: 'another' });
      expect(problem).toMatchObject({ code: 'idempotency_key_reused', status: 422 });
    }
    const { data } = await get(`${room.path}/events?limit=200`);
    for (const [, , type] of writes) expect(data.filter((event: Json) => event.type === type)).toHaveLength(1);
  });

  test('after a dropped connection, repeated calls write one message', async () => {
    const token = await agentKeyOf(room.larkspur);
    const args = { room: room.id, text: '@scout are you there?', idempotency_key: 'held-up' };
    const held = await holdTransaction(
      api.db,
      (tx) => tx.$queryRaw`SELECT 1 AS locked FROM rooms WHERE id = ${room.id} FOR UPDATE`,
    );
    try {
      const { user: dropped, drop } = await droppable(token);
      const call = dropped.call('post_message', args).then(
        () => 'answered',
        () => 'lost',
      );
      await untilWaiting(api.db);
      drop();
      expect(await call).toBe('lost');
      const user = await connectMcp(transportTo(api.url, token, kind));
      const { problem } = await user.call('post_message', args);
      expect(problem).toMatchObject({ code: 'request_in_flight', status: 409, retry_after_seconds: 1 });
    } finally {
      await held.release();
    }
    await until('the message', async () => (await api.db.message.count({ where: { roomId: room.id } })) > 0);
    const user = await connectMcp(transportTo(api.url, token, kind));
    const again = await callTool(user, 'post_message', args);
    expect([again.replayed, await callTool(user, 'post_message', args)]).toEqual([true, again]);
    expect((await get(`${room.path}/messages`)).data.map((message: Json) => message.text)).toEqual([args.text]);
    expect(await api.db.wake.count({ where: { roomId: room.id } })).toBe(1);
  });

  test('a client with an old protocol version uses the same tools', async () => {
    const transport = transportTo(api.url, await agentKeyOf(room.larkspur), kind);
    const send = transport.send.bind(transport);
    transport.send = (message, options) => send(withOldVersion(message), options);
    const setVersion = transport.setProtocolVersion?.bind(transport);
    let negotiated: unknown;
    transport.setProtocolVersion = (version) => {
      negotiated = version;
      setVersion?.(version);
    };
    const user = await connectMcp(transport);
    expect(negotiated).toBe('2024-11-05');
    expect((await callTool(user, 'list_rooms')).data).toHaveLength(1);
  });

  /** A client whose connection can be cut during a call. */
  async function droppable(token: string): Promise<{ user: McpUser; drop(): void }> {
    if (kind === 'stdio') {
      const transport = transportTo(api.url, token, kind) as StdioClientTransport;
      const user = await connectMcp(transport);
      const pid = transport.pid as number;
      return { user, drop: () => void process.kill(pid, 'SIGKILL') };
    }
    const cut = new AbortController();
    const cutOff: typeof fetch = (input, init) =>
      fetch(input, { ...init, signal: AbortSignal.any([cut.signal, ...(init?.signal ? [init.signal] : [])]) });
    const user = await connectMcp(transportTo(api.url, token, kind, cutOff));
    return { user, drop: () => cut.abort() };
  }
});

function withOldVersion(message: JSONRPCMessage): JSONRPCMessage {
  if (!('method' in message) || message.method !== 'initialize') return message;
  return { ...message, params: { ...message.params, protocolVersion: '2024-11-05' } };
}

/** The result of a call that must succeed. */
async function callTool(user: McpUser, tool: string, args: Record<string, unknown> = {}): Promise<Json> {
  const { data, problem } = await user.call(tool, args);
  if (problem !== null) throw new Error(`${tool} failed: ${JSON.stringify(problem)}`);
  return data;
}
