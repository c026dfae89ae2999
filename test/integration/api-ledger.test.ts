// Wakes and runs: the fields that their own company sees, and the fields that other companies in the room see.

import { claimMessage } from '../../prisma/store/runs/claims';
import { newId } from '../../prisma/store/db/ids';
import { closeRun } from '../../prisma/store/runs/fence';
import { deliverWakes } from '../../prisma/store/runs/wakes';
import {
  expectStatus,
  setUpCompany,
  setUpRoom,
  startTestApi,
  type ApiClient,
  type Json,
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

const execution = (messageId: string) => ({
  workflowId: `wake/${room.larkspur.agentId}/${messageId}`,
  temporalRunId: `temporal-${messageId}`,
});

/** Posts a message to `scribe` and claims its wake, as a worker does. */
async function claimRun(): Promise<{ run: string; wake: string; message: string }> {
  const event = { type: 'message', text: 'hello @scribe' };
  const posted = await expectStatus(201, room.tamarack.member.post(`${room.path}/events`, event));
  await deliverWakes(api.db, 100);
  const wake = { agentId: room.larkspur.agentId, messageId: posted.id };
  const claim = await claimMessage(api.db, execution(posted.id), wake, { timeLimitMs: 300_000 });
  if (claim.kind !== 'granted') throw new Error(`not granted: ${claim.kind}`);
  return { run: claim.runId, wake: posted.wakes[0].wake, message: posted.id };
}

test('a run shows its ledger to its own company, and only its ids, state and reply to others', async () => {
  const { run, wake, message } = await claimRun();
  const reply = await expectStatus(
    201,
    room.larkspur.service.post(`${room.path}/events`, { type: 'message', text: 'hi' }),
  );
  await api.db.runStep.createMany({
    data: [
      { runId: run, stepKey: 'reply', position: 0, kind: 'reply', state: 'done', effectId: reply.id },
      { runId: run, stepKey: 'memory', position: 1, kind: 'memory', state: 'superseded', code: 'right_revoked' },
    ],
  });
  await api.db.modelRequest.createMany({
    data: [
      {
        runId: run,
        number: 1,
        outcome: 'retry',
        code: 'overloaded',
        httpStatus: 529,
        providerCode: 'overloaded_error',
        namedWaitMs: 1_500,
        endedAt: new Date(),
      },
      {
        runId: run,
        number: 2,
        outcome: 'answered',
        httpStatus: 200,
        inputTokens: 3_000_000_000n,
        outputTokens: 2n ** 53n + 1n,
        endedAt: new Date(),
      },
    ],
  });
  await api.db.run.update({
    where: { id: run },
    data: {
      model: 'test-model',
      modelKeyId: room.larkspur.modelKeyId,
      modelKeyVersion: 1,
      manifest: { messages: [message] },
      context: { system: 'context-canary', user: 'context-canary' },
      reply: { reply: 'hi', memory: null, task_updates: [], tasks_to_send: [] },
      replySha256: 'a'.repeat(64),
      rights: { reply: 'go', memory: 'go', task_update: 'go', task_send: 'go' },
      fencedCount: 2,
    },
  });

  const own = await room.larkspur.member.get(`/v1/runs/${run}`);
  expect(own.status).toBe(200);
  expect(own.text).not.toContain('context-canary');
  expect(own.body).toEqual({
    id: run,
    room: room.id,
    company: room.larkspur.id,
    agent: room.larkspur.agentId,
    message,
    state: 'open',
    ending: null,
    posted: reply.id,
    wake,
    code: null,
    on_crash: 'stop',
    hop: 1,
    time_limit_ms: 300_000,
    claimed_at: expect.stringMatching(/Z$/),
    closed_at: null,
    model: 'test-model',
    model_key: room.larkspur.modelKeyId,
    model_key_version: 1,
    reply_sha256: 'a'.repeat(64),
    rights: { reply: 'go', memory: 'go', task_update: 'go', task_send: 'go' },
    retry_at: null,
    cancelled: null,
    parked_at: null,
    parked_ms: 0,
    held_actions: [],
    fenced_count: 2,
    temporal: { workflow_id: execution(message).workflowId, run_id: execution(message).temporalRunId },
    manifest: { messages: [message] },
    steps: [
      { key: 'reply', kind: 'reply', position: 0, state: 'done', code: null, effect: reply.id, at: expect.any(String) },
      {
        key: 'memory',
        kind: 'memory',
        position: 1,
        state: 'superseded',
        code: 'right_revoked',
        effect: null,
        at: expect.any(String),
      },
    ],
    requests: [
      {
        number: 1,
        outcome: 'retry',
        code: 'overloaded',
        http_status: 529,
        provider_code: 'overloaded_error',
        input_tokens: null,
        output_tokens: null,
        named_wait_ms: 1_500,
        claimed_at: expect.any(String),
        ended_at: expect.any(String),
      },
      expect.objectContaining({
        number: 2,
        outcome: 'answered',
        input_tokens: 3_000_000_000,
        output_tokens: '9007199254740993',
      }),
    ],
    usage: {
      requests: 2,
      input_tokens: 3_000_000_000,
      output_tokens: '9007199254740993',
      uncounted_requests: 0,
      money: { amounts: null, unpriced_requests: 1 },
    },
  });
  // The number is exact in the JSON text, not only after parsing.
  expect(own.text).toContain('"input_tokens":3000000000');
  const listed = (await expectStatus(200, room.larkspur.member.get('/v1/runs?limit=200'))).data.find(
    (item: Json) => item.id === run,
  );
  const { manifest: _, ...rest } = own.body;
  expect(listed).toEqual(rest);

  const shown = {
    id: run,
    room: room.id,
    company: room.larkspur.id,
    agent: room.larkspur.agentId,
    message,
    state: 'open',
    ending: null,
    posted: reply.id,
  };
  for (const client of [room.tamarack.admin, room.tamarack.service, room.tamarack.agent]) {
    expect((await client.get(`/v1/runs/${run}`)).body).toEqual(shown);
    const list = await expectStatus(200, client.get('/v1/runs?limit=200'));
    expect(list.data.find((item: Json) => item.id === run)).toEqual(shown);
    expect(await expectStatus(200, client.get(`/v1/wakes/${wake}`))).toEqual({
      id: wake,
      room: room.id,
      company: room.larkspur.id,
      agent: room.larkspur.agentId,
      message,
      state: 'claimed',
      reason: null,
      run,
    });
  }
  expect(await expectStatus(200, room.larkspur.member.get(`/v1/wakes/${wake}`))).toMatchObject({
    state: 'claimed',
    run,
    hop: 0,
    delivered_at: expect.any(String),
    claimed_at: expect.any(String),
  });
});

test('only the run’s own company sees who cancelled the run and why', async () => {
  const { run, message } = await claimRun();
  await closeRun(api.db, execution(message), run, { kind: 'cancelled' }, { by: 'Ada', why: 'canary reason' });
  const own = await expectStatus(200, room.larkspur.member.get(`/v1/runs/${run}`));
  expect(own).toMatchObject({ state: 'closed', ending: 'cancelled', cancelled: { by: 'Ada', why: 'canary reason' } });
  const seen = await room.tamarack.member.get(`/v1/runs/${run}`);
  expect(seen.body).toMatchObject({ state: 'closed', ending: 'cancelled', posted: null });
  const feed = await room.tamarack.member.get(`${room.path}/events?limit=200`);
  expect(feed.body.data.at(-1)).toMatchObject({ type: 'run_ended', author: null, data: { run, ending: 'cancelled' } });
  expect(seen.text + feed.text).not.toContain('canary');
});

test('lists filter by room, agent, state, ending and time', async () => {
  const other = await setUpRoom(api, { suffix: '-f' });
  const { run } = await claimRun();
  const ids = async (query: string, client = room.larkspur.member) =>
    (await expectStatus(200, client.get(`/v1/runs?limit=200&${query}`))).data.map((item: Json) => item.id);
  const { claimed_at } = (await room.larkspur.member.get(`/v1/runs/${run}`)).body;
  const later = new Date(Date.parse(claimed_at) + 1).toISOString();
  expect(await ids(`room=${room.id}&agent=${room.larkspur.agentId}&state=open`)).toContain(run);
  expect(await ids(`since=${claimed_at}`)).toContain(run);
  expect(await ids(`since=${later}`)).not.toContain(run);
  expect(await ids(`until=${later}`)).toContain(run);
  expect(await ids(`until=${claimed_at}`)).not.toContain(run);
  expect(await ids('ending=replied')).toEqual([]);
  expect(await ids('state=closed')).not.toContain(run);
  expect((await ids('ending=cancelled')).length).toBeGreaterThan(0);
  expect(await ids(`agent=${room.tamarack.agentId}`)).toEqual([]);
  expect(await ids(`room=${other.id}`)).toEqual([]);
  expect(await ids(`room=${room.id}`, other.larkspur.member)).toEqual([]);
  const wakes = async (query: string) =>
    (await expectStatus(200, room.larkspur.member.get(`/v1/wakes?limit=200&${query}`))).data;
  expect(
    (await wakes(`room=${room.id}&agent=${room.larkspur.agentId}&state=claimed`)).map((wake: Json) => wake.run),
  ).toContain(run);
  expect(await wakes('state=pending')).toEqual([]);
  const written = (await wakes(`state=claimed`)).find((wake: Json) => wake.run === run).created_at;
  const after = new Date(Date.parse(written) + 1).toISOString();
  const runsOf = async (query: string) => (await wakes(query)).map((wake: Json) => wake.run);
  expect(await runsOf(`since=${written}&until=${after}`)).toContain(run);
  expect(await runsOf(`since=${after}`)).not.toContain(run);
  expect(await runsOf(`until=${written}`)).not.toContain(run);
  expect(await wakes(`room=${other.id}`)).toEqual([]);
});

test('time filters use the claim time for the run’s own company and the message time for other companies', async () => {
  const { run, message } = await claimRun();
  const { created_at: written } = await expectStatus(200, room.tamarack.member.get(`${room.path}/messages/${message}`));
  const later = (time: string, ms: number): string => new Date(Date.parse(time) + ms).toISOString();
  const claimed = later(written, 60_000);
  const end = later(claimed, 60_000);
  await api.db.run.update({ where: { id: run }, data: { claimedAt: new Date(claimed) } });
  const listed = async (client: ApiClient, since: string, until: string): Promise<boolean> => {
    const { data } = await expectStatus(200, client.get(`/v1/runs?limit=200&since=${since}&until=${until}`));
    return data.some((item: Json) => item.id === run);
  };
  const counted = async (client: ApiClient, since: string, until: string): Promise<boolean> => {
    const total = async (from: string): Promise<number> =>
      (await expectStatus(200, client.get(`${room.path}/usage?since=${from}&until=${until}`))).runs.total;
    // No other run is claimed that late or has its message in that time.
    return (await total(since)) > 0;
  };
  for (const isThere of [listed, counted]) {
    const { larkspur, tamarack } = room;
    expect(await isThere(larkspur.member, claimed, end)).toBe(true);
    expect(await isThere(larkspur.member, written, claimed)).toBe(false);
    expect(await isThere(tamarack.member, claimed, end)).toBe(false);
    expect(await isThere(tamarack.member, written, claimed)).toBe(true);
    expect(await isThere(tamarack.member, later(written, 1), end)).toBe(false);
    expect(await isThere(tamarack.member, written, later(written, 1))).toBe(true);
  }
});

test('a company outside the room gets 404 for everything in it', async () => {
  const { run, wake, message } = await claimRun();
  const stranger = await setUpCompany(api, 'yarrow', 'Yarrow', 'scribe');
  const expectNotFound = async (path: string, unknown: string): Promise<void> => {
    const [foreign, missing] = [await stranger.admin.get(path), await stranger.admin.get(unknown)];
    expect([path, foreign.status]).toEqual([path, 404]);
    expect({ ...foreign.body, request_id: null }).toEqual({ ...missing.body, request_id: null });
  };
  await expectNotFound(`/v1/runs/${run}`, `/v1/runs/${newId('run')}`);
  await expectNotFound(`/v1/wakes/${wake}`, `/v1/wakes/${newId('wake')}`);
  for (const part of ['', '/events', '/members', '/roster', '/messages', `/messages/${message}`, '/tasks', '/memory']) {
    await expectNotFound(room.path + part, `/v1/rooms/${newId('room')}${part}`);
  }
  const writes: [string, object][] = [
    ['/events', { type: 'message', text: 'hi' }],
    ['/events', { type: 'task', to: 'scribe', goal: 'hi' }],
    ['/events', { type: 'memory', category: 'fact', content: 'hi' }],
    ['/roster', { agent: stranger.agentId }],
    ['/invitations', {}],
  ];
  for (const [part, body] of writes) {
    const [foreign, missing] = [
      await stranger.admin.post(room.path + part, body),
      await stranger.admin.post(`/v1/rooms/${newId('room')}${part}`, body),
    ];
    expect([part, foreign.status]).toEqual([part, 404]);
    expect({ ...foreign.body, request_id: null }).toEqual({ ...missing.body, request_id: null });
  }
  for (const list of ['/v1/runs', '/v1/wakes', '/v1/rooms']) {
    expect((await expectStatus(200, stranger.admin.get(list))).data).toEqual([]);
  }
});

describe('private memory', () => {
  test('shows its content to its own company, and only its existence to others', async () => {
    const own = await setUpRoom(api, { suffix: '-p' });
    const entry = {
      type: 'memory',
      category: 'requirement',
      content: 'content-canary',
      tags: ['tag-canary'],
      visibility: 'private',
    };
    const { id, event } = await expectStatus(201, own.larkspur.member.post(`${own.path}/events`, entry));
    const shared = await expectStatus(
      201,
      own.tamarack.member.post(`${own.path}/events`, { type: 'memory', category: 'requirement', content: 'ours' }),
    );

    const whole = await expectStatus(200, own.larkspur.service.get(`${own.path}/memory/${id}`));
    expect(whole).toMatchObject({ content: 'content-canary', tags: ['tag-canary'], author: { name: 'Member' } });
    const feed = (await expectStatus(200, own.larkspur.service.get(`${own.path}/events?limit=200`))).data;
    expect(feed.find((item: Json) => item.id === event)).toMatchObject({ author: { name: 'Member' }, data: whole });

    const bare = { id, room: own.id, company: own.larkspur.id, visibility: 'private', created_at: whole.created_at };
    const idsOf = async (query: string, client = own.tamarack.member): Promise<string[]> =>
      (await expectStatus(200, client.get(`${own.path}/memory?${query}`))).data.map((item: Json) => item.id);
    for (const client of [own.tamarack.admin, own.tamarack.service, own.tamarack.agent, own.larkspur.agent]) {
      expect((await client.get(`${own.path}/memory/${id}`)).body).toEqual(bare);
      const list = await client.get(`${own.path}/memory`);
      expect(list.body.data).toEqual([bare, expect.objectContaining({ id: shared.id })]);
      const events = await client.get(`${own.path}/events?limit=200`);
      expect(events.body.data.find((item: Json) => item.id === event)).toMatchObject({
        company: own.larkspur.id,
        author: null,
        data: bare,
      });
      expect(list.text + events.text).not.toMatch(/canary/);
    }
    expect(await idsOf('category=requirement')).toEqual([shared.id]);
    expect(await idsOf('category=requirement', own.larkspur.member)).toEqual([id, shared.id]);
    expect(await idsOf(`author=${whole.author.id}`)).toEqual([]);
    expect(await idsOf(`author=${whole.author.id}`, own.larkspur.member)).toEqual([id]);

    // Other companies do not see the deprecation either.
    await api.db.memoryEntry.update({ where: { id }, data: { deprecatedAt: new Date() } });
    expect(await idsOf('')).toEqual([id, shared.id]);
    expect(await idsOf('include_deprecated=true')).toEqual([id, shared.id]);
    expect(await idsOf('', own.larkspur.member)).toEqual([shared.id]);
  });

  test('is read with an agent’s key if its company allows it', async () => {
    const own = await setUpRoom(api, { suffix: '-q' });
    const entry = { type: 'memory', category: 'fact', content: 'ours', visibility: 'private' };
    const { id } = await expectStatus(201, own.larkspur.member.post(`${own.path}/events`, entry));
    const read = async () => (await own.larkspur.agent.get(`${own.path}/memory/${id}`)).body.content;
    expect(await read()).toBeUndefined();
    const rosterEntry = `${own.path}/roster/${own.larkspur.agentId}`;
    await expectStatus(200, own.larkspur.admin.patch(rosterEntry, { private_memory: true }));
    expect(await read()).toBe('ours');
    expect((await own.tamarack.agent.get(`${own.path}/memory/${id}`)).body.content).toBeUndefined();
    await expectStatus(200, own.larkspur.admin.patch(rosterEntry, { private_memory: false }));
    expect(await read()).toBeUndefined();
  });
});

test('a company that left the room, and an agent off its roster, no longer see its wakes and runs', async () => {
  const { run, wake } = await claimRun();
  const listed = async (client: ApiClient): Promise<boolean[]> => {
    const has = async (path: string, id: string) =>
      (await expectStatus(200, client.get(`${path}?limit=200`))).data.some((item: Json) => item.id === id);
    const one = [(await client.get(`/v1/runs/${run}`)).status, (await client.get(`/v1/wakes/${wake}`)).status];
    return [await has('/v1/runs', run), await has('/v1/wakes', wake), ...one.map((status) => status === 200)];
  };
  const [all, none] = [Array.from({ length: 4 }, () => true), Array.from({ length: 4 }, () => false)];
  expect(await listed(room.tamarack.agent)).toEqual(all);
  const rosterEntry = { roomId_agentId: { roomId: room.id, agentId: room.tamarack.agentId } };
  await api.db.roomAgent.update({ where: rosterEntry, data: { removedAt: new Date() } });
  expect([await listed(room.tamarack.agent), await listed(room.tamarack.member)]).toEqual([none, all]);
  const member = { roomId_companyId: { roomId: room.id, companyId: room.tamarack.id } };
  await api.db.roomMember.update({ where: member, data: { leftAt: new Date() } });
  expect([await listed(room.tamarack.member), await listed(room.larkspur.member)]).toEqual([none, all]);
});
