// Agents: slugs and names, always-on agents, visibility to other companies, and rosters.

import { newId } from '../../prisma/store/db/ids';
import {
  expectStatus,
  setUpCompany,
  setUpRoom,
  startTestApi,
  type RoomCompany,
  type TestApi,
  type TestRoom,
} from '../support/api';

let api: TestApi;
let room: TestRoom;
let larkspur: RoomCompany;
let tamarack: RoomCompany;

beforeAll(async () => {
  api = await startTestApi();
  room = await setUpRoom(api);
  ({ larkspur, tamarack } = room);
});
afterAll(() => api.close());

const reader = { always_on: false };

describe('slugs and names', () => {
  test.each([
    ['物語', '物語'],
    ['Иван', 'иван'],
    ['Ольга', 'ольга'],
    ['Data  Clerk (2)', 'data-clerk-2'],
    ['Rene\u0301', 'ren\u00e9'],
  ])('the name %s gives the slug %s, and only once', async (name, slug) => {
    expect(await expectStatus(201, larkspur.admin.post('/v1/agents', { name, ...reader }))).toMatchObject({
      name,
      slug,
    });
    expect(await expectStatus(409, larkspur.admin.post('/v1/agents', { name, ...reader }))).toMatchObject({
      code: 'conflict',
    });
    expect(await expectStatus(201, larkspur.admin.post('/v1/rooms', { name }))).toMatchObject({ name, slug });
  });

  test.each([
    [{ name: '🚀' }, '/name'],
    [{ name: '---' }, '/name'],
    [{ name: '' }, '/name'],
    [{ name: 'x'.repeat(5_000) }, '/name'],
    [{ name: 'ada@larkspur' }, '/name'],
    [{ name: 'two\nlines' }, '/name'],
    [{ name: 'turned\u202eround' }, '/name'],
    [{ name: 'ok', slug: 'x'.repeat(5_000) }, '/slug'],
    [{ name: 'ok', slug: 'Capital' }, '/slug'],
    [{ name: 'ok', slug: 'two--dashes' }, '/slug'],
    [{ name: 'ok', slug: 'sp ace' }, '/slug'],
    [{ name: 'ok', slug: '' }, '/slug'],
    [{ name: 'ok', slug: 'rene\u0301' }, '/slug'],
  ])('%j is refused at %s', async (body, pointer) => {
    for (const path of ['/v1/agents', '/v1/rooms']) {
      const answer = await expectStatus(
        400,
        larkspur.admin.post(path, { ...body, ...(path === '/v1/agents' && reader) }),
      );
      expect(answer).toMatchObject({ code: 'invalid_input', pointer });
    }
    const answer = await expectStatus(400, api.client(api.operatorKey).post('/v1/companies', body));
    expect(answer).toMatchObject({ code: 'invalid_input', pointer });
  });

  test('a name keeps its spelling, and its slug has at most 64 characters', async () => {
    const name = `Ａｄａ ${'Q'.repeat(70)}`;
    const agent = await expectStatus(201, larkspur.admin.post('/v1/agents', { name: `  ${name} `, ...reader }));
    expect(agent.name).toBe(name);
    expect(agent.slug).toBe(`ada-${'q'.repeat(60)}`);
  });

  test("a company's slug is unique", async () => {
    const operator = api.client(api.operatorKey);
    expect(await expectStatus(409, operator.post('/v1/companies', { name: 'Larkspur' }))).toMatchObject({
      code: 'conflict',
    });
    expect(await api.db.company.count({ where: { slug: 'larkspur' } })).toBe(1);
  });
});

describe('an always-on agent', () => {
  const whole = () => ({ model: 'test-model', model_key: larkspur.modelKeyId });

  test('needs a model and a model key of its company that is not revoked', async () => {
    const revoked = await expectStatus(
      201,
      larkspur.admin.post('/v1/model-keys', { name: 'old', key: 'sk-old', provider: 'openai' }),
    );
    await expectStatus(204, larkspur.admin.delete(`/v1/model-keys/${revoked.id}`));
    const cases: [object, string][] = [
      [{ model: undefined }, '/model'],
      [{ model: null }, '/model'],
      [{ model: '' }, '/model'],
      [{ model: ' x' }, '/model'],
      [{ model: 'x'.repeat(201) }, '/model'],
      [{ model_key: undefined }, '/model_key'],
      [{ model_key: newId('mk') }, '/model_key'],
      [{ model_key: newId('key') }, '/model_key'],
      [{ model_key: tamarack.modelKeyId }, '/model_key'],
      [{ model_key: revoked.id }, '/model_key'],
      [{ instructions: 'x'.repeat(32_001) }, '/instructions'],
    ];
    for (const [change, pointer] of cases) {
      const answer = await larkspur.admin.post('/v1/agents', { name: 'Clerk', ...whole(), ...change });
      expect([change, answer.status, answer.body.pointer]).toEqual([change, 400, pointer]);
    }
    const agent = await expectStatus(201, larkspur.admin.post('/v1/agents', { name: 'Clerk', ...whole() }));
    expect(agent).toMatchObject({ slug: 'clerk', always_on: true, instructions: '', paused_at: null, ...whole() });
    const path = `/v1/agents/${agent.id}`;
    for (const [change, pointer] of [
      [{ model: null }, '/model'],
      [{ model_key: null }, '/model_key'],
      [{ model_key: revoked.id }, '/model_key'],
    ] as const) {
      expect(await expectStatus(400, larkspur.admin.patch(path, change))).toMatchObject({ pointer });
    }
    await expectStatus(400, larkspur.admin.patch(path, {}));
    expect(await expectStatus(400, larkspur.admin.patch(path, { slug: 'other' }))).toMatchObject({ pointer: '/slug' });
    const off = { always_on: false, model: null, model_key: null };
    expect(await expectStatus(200, larkspur.admin.patch(path, off))).toMatchObject(off);
    expect(await expectStatus(400, larkspur.admin.patch(path, { always_on: true }))).toMatchObject({
      pointer: '/model',
    });
  });

  test('is paused and resumed by any person, and a second pause changes nothing', async () => {
    const path = `/v1/agents/${larkspur.agentId}`;
    const paused = await expectStatus(200, larkspur.member.post(`${path}/pause`));
    expect(paused.paused_at).not.toBeNull();
    expect((await larkspur.admin.post(`${path}/pause`)).body.paused_at).toBe(paused.paused_at);
    const sent = await expectStatus(
      201,
      tamarack.member.post(`${room.path}/events`, { type: 'message', text: '@scribe?' }),
    );
    expect(sent.wakes).toMatchObject([{ slug: 'scribe', status: 'suppressed', reason: 'unavailable' }]);
    expect((await larkspur.member.post(`${path}/resume`)).body.paused_at).toBeNull();
  });
});

describe('the visibility of an agent', () => {
  test('its company sees all fields, companies in a shared room see its identity, and other companies get 404', async () => {
    const path = `/v1/agents/${larkspur.agentId}`;
    const own = await expectStatus(200, larkspur.member.get(path));
    expect(own).toMatchObject({ instructions: 'Be brief.', model: 'test-model', model_key: larkspur.modelKeyId });
    const known = { id: larkspur.agentId, slug: 'scribe', name: 'Scribe', company: larkspur.id };
    for (const client of [tamarack.admin, tamarack.service, tamarack.agent]) {
      expect(await expectStatus(200, client.get(path))).toEqual(known);
    }
    const stranger = await setUpCompany(api, 'yarrow', 'Yarrow', 'scribe');
    const [foreign, unknown] = [
      await stranger.admin.get(path),
      await stranger.admin.get(`/v1/agents/${newId('agent')}`),
    ];
    expect(foreign.status).toBe(404);
    expect({ ...foreign.body, request_id: null }).toEqual({ ...unknown.body, request_id: null });
    await expectStatus(404, stranger.member.post(`${path}/pause`));
    await expectStatus(404, tamarack.member.post(`${path}/pause`));
    await expectStatus(404, tamarack.admin.patch(path, { name: 'Mine' }));
    expect((await stranger.admin.get('/v1/agents')).body.data).toHaveLength(1);
  });

  test('an agent reads its own instructions and not those of other agents', async () => {
    const clerk = await expectStatus(
      201,
      larkspur.admin.post('/v1/agents', { name: 'Keeper', instructions: 'canary', ...reader }),
    );
    expect((await larkspur.agent.get(`/v1/agents/${larkspur.agentId}`)).body.instructions).toBe('Be brief.');
    expect((await larkspur.agent.get(`/v1/agents/${clerk.id}`)).text).not.toContain('canary');
    expect((await larkspur.agent.get('/v1/agents?limit=200')).text).not.toContain('canary');
    expect((await larkspur.service.get('/v1/agents?limit=200')).text).toContain('canary');
  });
});

describe('the roster', () => {
  const rosterOf = async (client = larkspur.member) =>
    (await expectStatus(200, client.get(`${room.path}/roster`))).data;
  const newAgent = async (company: RoomCompany, body: object): Promise<string> =>
    (await expectStatus(201, company.admin.post('/v1/agents', { ...body, ...reader }))).id;

  test('shows rights to the agent’s own company only', async () => {
    const mine = (await rosterOf(larkspur.member)).find((entry: { slug: string }) => entry.slug === 'scribe');
    const seen = (await rosterOf(tamarack.member)).find((entry: { slug: string }) => entry.slug === 'scribe');
    expect(mine.rights).toEqual({ reply: 'go', memory: 'go', task_update: 'go', task_send: 'go' });
    expect(mine.private_memory).toBe(false);
    expect(Object.keys(seen).toSorted()).toEqual(['added_at', 'agent', 'company', 'name', 'room', 'slug']);
  });

  test('adds an agent with the rights that its company sets', async () => {
    const agent = await newAgent(larkspur, { name: 'Ledger' });
    const careful = await expectStatus(201, larkspur.admin.post(`${room.path}/roster`, { agent }));
    expect(careful).toMatchObject({ agent, slug: 'ledger', private_memory: false });
    expect(careful.rights).toEqual({ reply: 'go', memory: 'go', task_update: 'go', task_send: 'hold' });
    const path = `${room.path}/roster/${agent}`;
    const stricter = await expectStatus(200, larkspur.admin.patch(path, { rights: { reply: 'refuse' } }));
    expect(stricter.rights).toEqual({ reply: 'refuse', memory: 'go', task_update: 'go', task_send: 'hold' });
    const held = await expectStatus(200, larkspur.admin.patch(path, { preset: 'supervised', private_memory: true }));
    expect(held.rights).toEqual({ reply: 'hold', memory: 'hold', task_update: 'hold', task_send: 'hold' });
    expect(held.private_memory).toBe(true);
    for (const body of [
      {},
      { rights: { post: 'go' } },
      { rights: { reply: 'yes' } },
      { preset: 'careful', rights: {} },
    ]) {
      await expectStatus(400, larkspur.admin.patch(path, body));
    }
    await expectStatus(403, tamarack.admin.patch(path, { preset: 'careful' }));
    await expectStatus(404, larkspur.admin.patch(`${room.path}/roster/${newId('agent')}`, { preset: 'careful' }));
    const event = (await expectStatus(200, tamarack.member.get(`${room.path}/events?limit=200`))).data.find(
      (seen: { type: string; data: { agent?: string } }) => seen.type === 'agent_added' && seen.data.agent === agent,
    );
    expect(event).toMatchObject({ company: larkspur.id, author: { kind: 'person' }, data: { slug: 'ledger' } });
    expect(JSON.stringify(event)).not.toMatch(/rights|private_memory/);
  });

  test('adds an agent once, even for concurrent requests', async () => {
    const agent = await newAgent(larkspur, { name: 'Twice' });
    const answers = await Promise.all(
      Array.from({ length: 5 }, () => larkspur.admin.post(`${room.path}/roster`, { agent })),
    );
    expect(answers.map((answer) => answer.status).toSorted()).toEqual([201, 409, 409, 409, 409]);
    expect(await api.db.roomEvent.count({ where: { type: 'agent_added', subjectId: agent } })).toBe(1);
  });

  test('accepts agents of the caller’s own company only', async () => {
    const agent = await newAgent(tamarack, { name: 'Foreign' });
    for (const id of [agent, newId('agent')]) {
      const answer = await expectStatus(400, larkspur.admin.post(`${room.path}/roster`, { agent: id }));
      expect(answer).toMatchObject({ pointer: '/agent', detail: 'no such agent' });
    }
    const stranger = await setUpCompany(api, 'sorrel', 'Sorrel', 'scribe');
    await expectStatus(404, stranger.admin.post(`${room.path}/roster`, { agent: stranger.agentId }));
    const both = {
      agent,
      preset: 'careful',
      rights: { reply: 'go', memory: 'go', task_update: 'go', task_send: 'go' },
    };
    await expectStatus(400, tamarack.admin.post(`${room.path}/roster`, both));
    await expectStatus(400, tamarack.admin.post(`${room.path}/roster`, { agent, rights: { reply: 'go' } }));
  });

  test.each([
    ['a Cyrillic last letter', { slug: 'scrib\u0435', name: 'Scribe Two' }],
    ['an invisible character inside', { slug: 'other-1', name: 'scr\u200bibe' }],
    ['a capital letter and a trailing space', { slug: 'other-2', name: 'Scribe ' }],
    ['the same slug', { slug: 'scribe', name: 'Another' }],
    ['full-width letters', { slug: 'other-3', name: 'ｓｃｒｉｂｅ' }],
  ])('refuses a name that looks like a name on the roster: %s', async (_name, body) => {
    const agent = await newAgent(tamarack, body);
    const before = (await rosterOf()).length;
    const answer = await expectStatus(409, tamarack.admin.post(`${room.path}/roster`, { agent }));
    expect(answer.code).toBe('conflict');
    expect(await rosterOf()).toHaveLength(before);
    expect(await api.db.rosterName.count({ where: { agentId: agent } })).toBe(0);
  });

  test('matches a mention in decomposed Unicode with a name in composed Unicode', async () => {
    const agent = await expectStatus(
      201,
      tamarack.admin.post('/v1/agents', { name: 'Zoé', model: 'm', model_key: tamarack.modelKeyId }),
    );
    await expectStatus(201, tamarack.admin.post(`${room.path}/roster`, { agent: agent.id }));
    const text = { type: 'message', text: 'hello @zoe\u0301' };
    expect((await expectStatus(201, larkspur.member.post(`${room.path}/events`, text))).wakes).toMatchObject([
      { slug: 'zoé' },
    ]);
    const named = { type: 'message', text: 'hello', mentions: ['ZOE\u0301'] };
    expect((await expectStatus(201, larkspur.member.post(`${room.path}/events`, named))).wakes).toMatchObject([
      { slug: 'zoé' },
    ]);
  });

  test('accepts a new name that is free on every roster, and frees the old name', async () => {
    const first = await newAgent(larkspur, { name: 'Porter', slug: 'p-1' });
    await expectStatus(201, larkspur.admin.post(`${room.path}/roster`, { agent: first }));
    const taken = await expectStatus(409, larkspur.admin.patch(`/v1/agents/${first}`, { name: 'SCOUT' }));
    expect(taken.code).toBe('conflict');
    expect((await larkspur.admin.get(`/v1/agents/${first}`)).body.name).toBe('Porter');
    await expectStatus(200, larkspur.admin.patch(`/v1/agents/${first}`, { name: 'Carrier' }));
    const second = await newAgent(tamarack, { name: 'Porter', slug: 'p-2' });
    await expectStatus(201, tamarack.admin.post(`${room.path}/roster`, { agent: second }));
    await expectStatus(409, tamarack.admin.patch(`/v1/agents/${second}`, { name: 'carrier' }));
    await expectStatus(200, larkspur.admin.patch(`/v1/agents/${first}`, { name: 'CARRIER' }));
  });

  test('refuses one of two equal names that are added at the same time', async () => {
    const agents = await Promise.all([
      newAgent(larkspur, { name: 'Runner', slug: 'r-1' }),
      newAgent(tamarack, { name: 'runner', slug: 'r-2' }),
    ]);
    const answers = await Promise.all([
      larkspur.admin.post(`${room.path}/roster`, { agent: agents[0] }),
      tamarack.admin.post(`${room.path}/roster`, { agent: agents[1] }),
    ]);
    expect(answers.map((answer) => answer.status).toSorted()).toEqual([201, 409]);
  });
});
