// MCP allows nothing that the API refuses: each tool, over HTTP and stdio, is compared with the same request to the API, with
// keys that lack the right.

import { TOOLS } from '../../api/mcp/tools';
import {
  expectStatus,
  setUpCompany,
  setUpRoom,
  startTestApi,
  type ApiAnswer,
  type ApiClient,
  type Json,
  type RoomCompany,
  type TestApi,
  type TestRoom,
} from '../support/api';
import { agentKeyOf, agentUser, closeMcpUsers, connectMcp, keyOf, memberUser, transportTo } from '../support/mcp';

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

interface ToolCase {
  readonly tool: string;
  readonly args: Json;
  /** The same request to the API. */
  readonly request: (client: ApiClient) => Promise<ApiAnswer>;
}

/** Every tool once, with arguments for a room that has a task and a run. */
function toolCases(at: { room: string; task: string; run: string }): ToolCase[] {
  const path = `/v1/rooms/${at.room}`;
  const event = (tool: string, type: string, fields: Json): ToolCase => ({
    tool,
    args: { room: at.room, ...fields },
    request: (client) => client.post(`${path}/events`, { type, ...fields }),
  });
  const reads = (tool: string, args: Json, url: string): ToolCase => ({
    tool,
    args,
    request: (client) => client.get(url),
  });
  return [
    reads('list_rooms', {}, '/v1/rooms'),
    reads('get_messages', { room: at.room }, `${path}/messages`),
    { tool: 'get_inbox', args: { room: at.room }, request: (client) => client.post(`${path}/inbox`, {}) },
    reads('read_memory', { room: at.room }, `${path}/memory`),
    event('write_memory', 'memory', { category: 'fact', content: 'must not be' }),
    event('post_message', 'message', { text: 'must not be' }),
    event('send_task', 'task', { to: 'scout', goal: 'must not be' }),
    event('respond_to_task', 'task_response', { task: at.task, state: 'done', result: 'must not be' }),
    reads('get_task', { room: at.room, task: at.task }, `${path}/tasks/${at.task}`),
    reads('list_runs', { room: at.room }, `/v1/runs?room=${at.room}`),
    reads('get_run', { run: at.run }, `/v1/runs/${at.run}`),
  ];
}

/** Sends a task from Tamarack to Larkspur's agent. */
const sendTask = async (): Promise<string> =>
  (
    await expectStatus(
      201,
      room.tamarack.member.post(`${room.path}/events`, { type: 'task', to: 'scribe', goal: 'Plan' }),
    )
  ).id;

const NO_RUN = 'run_01h2xcejqtf2nbrexx3vqjhp41';

function withoutRequestId(problem: Json): Json {
  return { ...problem, request_id: null };
}

/** The number of events in the room. */
const countEvents = async (): Promise<number> => api.db.roomEvent.count({ where: { roomId: room.id } });

test('the table above has every tool', () => {
  const names = toolCases({ room: 'r', task: 't', run: 'x' }).map(({ tool }) => tool);
  expect(names).toEqual(TOOLS.map(({ name }) => name));
});

describe.each(['http', 'stdio'] as const)('over %s', (kind) => {
  test('a company outside the room gets the same empty list or 404 from every tool as from the API', async () => {
    const task = await sendTask();
    const outsider = await setUpCompany(api, `alder-${rooms}`, `Alder ${rooms}`, 'outsider');
    const user = await agentUser(api, outsider, kind);
    const before = await countEvents();
    for (const { tool, args, request } of toolCases({ room: room.id, task, run: NO_RUN })) {
      const refused = await request(outsider.agent);
      const { data, problem } = await user.call(tool, args);
      if (refused.status === 200) {
        expect([tool, data.data]).toEqual([tool, []]);
        expect(refused.body.data).toEqual([]);
      } else {
        expect(refused.status).toBe(404);
        expect([tool, withoutRequestId(problem)]).toEqual([tool, withoutRequestId(refused.body)]);
      }
    }
    expect(await countEvents()).toBe(before);
  });

  test.each(['hold', 'refuse'])(
    'with an agent’s rights set to %s, each tool refuses its key as the API does',
    async (right) => {
      const task = await sendTask();
      const user = await agentUser(api, room.larkspur, kind);
      const rights = { reply: right, memory: right, task_update: right, task_send: right };
      await expectStatus(200, room.larkspur.admin.patch(`${room.path}/roster/${room.larkspur.agentId}`, { rights }));
      const before = await countEvents();
      const acting = new Set(['write_memory', 'post_message', 'send_task', 'respond_to_task']);
      for (const { tool, args, request } of toolCases({ room: room.id, task, run: NO_RUN })) {
        if (!acting.has(tool)) continue;
        const refused = await request(room.larkspur.agent);
        expect([refused.status, refused.body.code]).toEqual([403, 'not_allowed']);
        const { problem } = await user.call(tool, args);
        expect([tool, withoutRequestId(problem)]).toEqual([tool, withoutRequestId(refused.body)]);
        acting.delete(tool);
      }
      expect([...acting]).toEqual([]);
      expect(await countEvents()).toBe(before);
    },
  );

  test('agent tools are refused to a person and a service, and another agent’s task to an agent', async () => {
    const task = await sendTask();
    const { token } = await keyOf(room.larkspur, { kind: 'service' });
    const users = [await memberUser(api, room.larkspur, kind), await connectMcp(transportTo(api.url, token, kind))];
    const response = { room: room.id, task, state: 'done', result: 'not mine' };
    for (const user of users) {
      for (const [tool, args] of [
        ['get_inbox', { room: room.id }],
        ['respond_to_task', response],
      ] as const) {
        expect((await user.call(tool, args)).problem).toMatchObject({ code: 'not_allowed', status: 403 });
      }
    }
    const scout = await agentUser(api, room.tamarack, kind);
    expect((await scout.call('respond_to_task', response)).problem).toMatchObject({ code: 'not_allowed', status: 403 });
    expect((await scout.call('get_inbox', { room: room.id })).data.tasks).toEqual([]);
    expect((await scout.call('get_task', { room: room.id, task })).data.task.state).toBe('pending');
  });

  test('only the company reads its private memory, and its agent only if that is switched on', async () => {
    const secret = { room: room.id, category: 'fact', content: 'private-canary', visibility: 'private' };
    const own = await memberUser(api, room.larkspur, kind);
    expect((await own.call('write_memory', secret)).problem).toBeNull();
    expect((await own.call('read_memory', { room: room.id })).text).toContain('private-canary');
    const agent = await agentUser(api, room.larkspur, kind);
    const others = [agent, await agentUser(api, room.tamarack, kind), await memberUser(api, room.tamarack, kind)];
    for (const user of others) {
      const { data, text } = await user.call('read_memory', { room: room.id });
      expect(data.data).toEqual([
        {
          id: expect.any(String),
          room: room.id,
          company: room.larkspur.id,
          visibility: 'private',
          created_at: expect.any(String),
        },
      ]);
      expect(text).not.toContain('private-canary');
    }
    const path = `${room.path}/roster/${room.larkspur.agentId}`;
    await expectStatus(200, room.larkspur.admin.patch(path, { private_memory: true }));
    expect((await agent.call('read_memory', { room: room.id })).text).toContain('private-canary');
  });

  test('an agent’s post is one hop above the message that addressed it, and wakes no agent beyond the hop limit', async () => {
    await expectStatus(200, room.larkspur.admin.patch(room.path, { hop_limit: 1 }));
    const [scribe, scout] = [await agentUser(api, room.larkspur, kind), await agentUser(api, room.tamarack, kind)];
    await expectStatus(201, room.larkspur.member.post(`${room.path}/events`, { type: 'message', text: '@scribe go' }));
    const first = await scribe.call('post_message', { room: room.id, text: '@scout your turn' });
    expect(first.data.wakes).toMatchObject([{ agent: room.tamarack.agentId, status: 'pending' }]);
    const second = await scout.call('post_message', { room: room.id, text: '@scribe your turn' });
    expect(second.data.wakes).toMatchObject([
      { agent: room.larkspur.agentId, status: 'suppressed', reason: 'hop_limit' },
    ]);
  });

  test('an agent removed from the roster is refused at its next call, and a closed room accepts no writes', async () => {
    const task = await sendTask();
    const scribe = await agentUser(api, room.larkspur, kind);
    const scout = await agentUser(api, room.tamarack, kind);
    await expectStatus(200, room.larkspur.admin.delete(`${room.path}/roster/${room.larkspur.agentId}`));
    for (const { tool, args, request } of toolCases({ room: room.id, task, run: NO_RUN })) {
      const refused = await request(room.larkspur.agent);
      const { data, problem } = await scribe.call(tool, args);
      if (refused.status === 200) expect([tool, data.data]).toEqual([tool, []]);
      else expect([tool, withoutRequestId(problem)]).toEqual([tool, withoutRequestId(refused.body)]);
    }
    await expectStatus(200, room.larkspur.admin.post(`${room.path}/close`));
    const before = await countEvents();
    for (const { tool, args, request } of toolCases({ room: room.id, task, run: NO_RUN })) {
      const asked = await request(room.tamarack.agent);
      const { problem } = await scout.call(tool, args);
      if (asked.status < 300) expect([tool, problem]).toEqual([tool, null]);
      else expect([tool, withoutRequestId(problem)]).toEqual([tool, withoutRequestId(asked.body)]);
    }
    expect(await countEvents()).toBe(before);
  });
});

test('over stdio, every tool reports a revoked key or a suspended company', async () => {
  const task = await sendTask();
  const key = await keyOf(room.larkspur, { kind: 'agent', agent: room.larkspur.agentId });
  const revoked = await connectMcp(transportTo(api.url, key.token, 'stdio'));
  const suspended = await agentUser(api, room.larkspur, 'stdio');
  await expectStatus(204, room.larkspur.admin.delete(`/v1/keys/${key.id}`));
  const everyTool = async (user: typeof revoked, company: RoomCompany, expected: Json): Promise<void> => {
    for (const { tool, args } of toolCases({ room: room.id, task, run: NO_RUN })) {
      const { problem } = await user.call(tool, args);
      expect([company.id, tool, problem]).toEqual([company.id, tool, expect.objectContaining(expected)]);
    }
  };
  await everyTool(revoked, room.larkspur, { code: 'unauthenticated', status: 401 });
  await expectStatus(200, api.client(api.operatorKey).post(`/v1/companies/${room.larkspur.id}/suspend`));
  await everyTool(suspended, room.larkspur, { code: 'company_suspended', status: 403 });
});

test('over stdio, the operator’s key reads no room, and an unreachable API is reported as unavailable', async () => {
  const operator = await connectMcp(transportTo(api.url, api.operatorKey, 'stdio'));
  expect((await operator.call('list_rooms')).problem).toMatchObject({ code: 'not_allowed', status: 403 });
  const nowhere = await connectMcp(transportTo('http://127.0.0.1:9', await agentKeyOf(room.larkspur), 'stdio'));
  const { problem } = await nowhere.call('post_message', { room: room.id, text: 'lost', idempotency_key: 'k' });
  expect(problem).toMatchObject({
    code: 'unavailable',
    status: 503,
    detail: expect.stringContaining('idempotency_key'),
  });
});
