// Tasks from sending to verdict, and shared memory, through the API.

import { newId } from '../../prisma/store/db/ids';
import { TEXT_LIMIT } from '../../workflows/contract';
import {
  expectStatus,
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

const post = (client: ApiClient, event: object, path = room.path) => client.post(`${path}/events`, event);
const feedOf = async (client: ApiClient, path = room.path): Promise<Json[]> =>
  (await expectStatus(200, client.get(`${path}/events?limit=200`))).data;

let suffix = 0;
async function anotherRoom(): Promise<TestRoom> {
  suffix += 1;
  return setUpRoom(api, { suffix: `-t${suffix}` });
}

describe('a task', () => {
  const send = (client: ApiClient, change: object = {}) =>
    post(client, { type: 'task', to: 'scout', goal: 'Find it', ...change });

  test('is sent to one agent as a card and wakes the agent once', async () => {
    const fact = await expectStatus(
      201,
      post(room.larkspur.member, { type: 'memory', category: 'fact', content: 'It is red' }),
    );
    const whole = {
      goal: 'Find it, @scout and @scribe',
      acceptance_criteria: ['it is red'],
      priority: 'high',
      deadline: '2026-08-08',
      memory_refs: [fact.id],
      attachments: [],
    };
    const sent = await expectStatus(201, send(room.larkspur.member, { ...whole, to: 'SCOUT' }));
    expect(sent.id).toMatch(/^task_/);
    expect(sent.wakes).toMatchObject([{ slug: 'scout', status: 'pending' }]);
    const task = await expectStatus(200, room.tamarack.member.get(`${room.path}/tasks/${sent.id}`));
    expect(task).toMatchObject({
      ...whole,
      recipient: room.tamarack.agentId,
      state: 'pending',
      result: null,
      verdict: null,
    });
    expect(task.sender).toMatchObject({ kind: 'person', company: room.larkspur.id });
    const card = await expectStatus(200, room.tamarack.member.get(`${room.path}/messages/${task.card}`));
    expect(card).toMatchObject({
      kind: 'task_card',
      text: whole.goal,
      task: sent.id,
      mentions: [room.tamarack.agentId],
    });
    expect((await feedOf(room.tamarack.member)).at(-1)).toMatchObject({
      id: sent.event,
      type: 'task',
      data: { ...task },
    });
  });

  test.each([
    [{ to: 'absent' }, '/to'],
    [{ to: '' }, '/to'],
    [{ goal: '' }, '/goal'],
    [{ priority: 'soon' }, '/priority'],
    [{ acceptance_criteria: [''] }, '/acceptance_criteria/0'],
    [{ acceptance_criteria: Array(21).fill('x') }, '/acceptance_criteria'],
    [{ memory_refs: [newId('mem')] }, '/memory_refs/0'],
    [{ memory_refs: [newId('msg')] }, '/memory_refs/0'],
    [{ attachments: ['file_1'] }, '/attachments/0'],
    [{ state: 'done' }, '/state'],
  ])('with %j is refused', async (change, pointer) => {
    expect(await expectStatus(400, send(room.larkspur.member, change))).toMatchObject({ pointer });
  });

  test('refers only to memory that its sender can read', async () => {
    const entry = { type: 'memory', category: 'fact', content: 'ours', visibility: 'private' };
    const own = await expectStatus(201, post(room.larkspur.member, entry));
    await expectStatus(201, send(room.larkspur.member, { memory_refs: [own.id] }));
    expect(await expectStatus(400, send(room.tamarack.member, { memory_refs: [own.id] }))).toMatchObject({
      pointer: '/memory_refs/0',
    });
    const other = await anotherRoom();
    const elsewhere = await expectStatus(
      201,
      post(other.larkspur.member, { ...entry, visibility: 'shared' }, other.path),
    );
    expect(await expectStatus(400, send(room.larkspur.member, { memory_refs: [elsewhere.id] }))).toMatchObject({
      pointer: '/memory_refs/0',
    });
  });

  describe('deadline', () => {
    const zone = process.env['TZ'];
    afterEach(() => {
      if (zone === undefined) delete process.env['TZ'];
      else process.env['TZ'] = zone;
    });

    test.each(['UTC', 'America/Bogota', 'Pacific/Auckland'])('is on the same day with the server in %s', async (tz) => {
      process.env['TZ'] = tz;
      const sent = await expectStatus(201, send(room.larkspur.member, { deadline: '2026-08-08' }));
      expect((await room.tamarack.member.get(`${room.path}/tasks/${sent.id}`)).body.deadline).toBe('2026-08-08');
    });

    test.each([
      ['2026-08-08T17:00:00-04:00', '2026-08-08T21:00:00.000Z'],
      ['2026-08-08t17:00:00.25z', '2026-08-08T17:00:00.250Z'],
      ['2024-02-29', '2024-02-29'],
      ['0001-01-01', '0001-01-01'],
      [null, null],
    ])('%s is stored as %s', async (deadline, stored) => {
      const sent = await expectStatus(201, send(room.larkspur.member, { deadline }));
      expect((await room.tamarack.member.get(`${room.path}/tasks/${sent.id}`)).body.deadline).toBe(stored);
    });

    test.each([
      '2026-02-30',
      '2025-02-29',
      '2026-02-30T00:00:00Z',
      '08/08/2026',
      '2026-08-08T17:00:00',
      '2026-08-08 17:00:00Z',
      '2026-08-08T24:00:00Z',
      '2026-08-08T17:00:60Z',
      '2026-08-08T17:00:00+24:00',
      '9999-12-31T23:00:00-12:00',
      '2026-13-01',
      '2026-8-8',
      'tomorrow',
      '',
      '0000-01-01',
    ])('%j is refused', async (deadline) => {
      expect(await expectStatus(400, send(room.larkspur.member, { deadline }))).toMatchObject({ pointer: '/deadline' });
    });
  });

  test('is answered by its recipient, also again, until the sender gives the final verdict', async () => {
    const { id } = await expectStatus(201, send(room.larkspur.member));
    const respond = (client: ApiClient, state: string, result = 'It is here') =>
      post(client, { type: 'task_response', task: id, state, result });
    const judge = (client: ApiClient, verdict: string, note?: string) =>
      post(client, { type: 'task_verdict', task: id, verdict, ...(note !== undefined && { note }) });

    for (const client of [room.tamarack.admin, room.tamarack.service, room.larkspur.agent]) {
      expect(await expectStatus(403, respond(client, 'done'))).toMatchObject({ code: 'not_allowed' });
    }
    await expectStatus(400, respond(room.tamarack.agent, 'finished'));
    await expectStatus(409, judge(room.larkspur.member, 'accepted'));

    const failed = await expectStatus(201, respond(room.tamarack.agent, 'failed'));
    expect(failed).toMatchObject({ id, wakes: [] });
    const done = await expectStatus(201, respond(room.tamarack.agent, 'done', 'It is there'));
    const task = await expectStatus(200, room.larkspur.member.get(`${room.path}/tasks/${id}`));
    expect(task).toMatchObject({ state: 'done', result: 'It is there', responded_at: expect.any(String) });
    const card = await expectStatus(200, room.larkspur.member.get(`${room.path}/messages/${task.response}`));
    expect(card).toMatchObject({ kind: 'response_card', text: 'It is there', task: id, refers_to: task.card, hop: 1 });
    expect(done.seq).toBe(failed.seq + 1);

    for (const client of [room.tamarack.admin, room.tamarack.agent, room.larkspur.service, room.larkspur.agent]) {
      await expectStatus(403, judge(client, 'accepted'));
    }
    await expectStatus(400, judge(room.larkspur.admin, 'maybe'));
    expect(await expectStatus(201, judge(room.larkspur.admin, 'rejected', 'Not red'))).toMatchObject({ id, wakes: [] });
    await expectStatus(409, judge(room.larkspur.member, 'accepted'));
    await expectStatus(409, respond(room.tamarack.agent, 'done'));
    const judged = await expectStatus(200, room.tamarack.member.get(`${room.path}/tasks/${id}`));
    expect(judged).toMatchObject({ state: 'done', verdict: 'rejected', verdict_note: 'Not red' });
    expect((await feedOf(room.tamarack.member)).slice(-3).map((event) => event.type)).toEqual([
      'task_response',
      'task_response',
      'task_verdict',
    ]);
  });

  test('sent by an agent wakes that agent with the response, and that agent gives the verdict', async () => {
    const sent = await expectStatus(201, send(room.larkspur.agent));
    const answered = await expectStatus(
      201,
      post(room.tamarack.agent, { type: 'task_response', task: sent.id, state: 'escalated', result: 'Too hard' }),
    );
    expect(answered.wakes).toMatchObject([{ slug: 'scribe', agent: room.larkspur.agentId }]);
    await expectStatus(403, post(room.tamarack.admin, { type: 'task_verdict', task: sent.id, verdict: 'accepted' }));
    await expectStatus(
      201,
      post(room.larkspur.agent, { type: 'task_verdict', task: sent.id, verdict: 'accepted', note: null }),
    );
  });

  test('of another room is refused like an unknown task', async () => {
    const other = await anotherRoom();
    const sent = await expectStatus(
      201,
      post(other.larkspur.member, { type: 'task', to: 'scout', goal: 'x' }, other.path),
    );
    for (const task of [sent.id, newId('task'), newId('msg'), 'task_0']) {
      const response = { type: 'task_response', task, state: 'done', result: 'x' };
      expect(await expectStatus(400, post(room.tamarack.agent, response))).toMatchObject({ pointer: '/task' });
      const verdict = { type: 'task_verdict', task, verdict: 'accepted' };
      expect(await expectStatus(400, post(room.larkspur.member, verdict))).toMatchObject({ pointer: '/task' });
    }
    await expectStatus(404, room.larkspur.member.get(`${room.path}/tasks/${sent.id}`));
    expect((await other.larkspur.member.get(`${other.path}/tasks/${sent.id}`)).body.state).toBe('pending');
  });

  test('is listed by state and recipient', async () => {
    const own = await anotherRoom();
    for (const to of ['scout', 'scribe', 'scout'])
      await expectStatus(201, post(own.larkspur.member, { type: 'task', to, goal: to }, own.path));
    const goals = async (query: string) =>
      (await expectStatus(200, own.tamarack.member.get(`${own.path}/tasks?${query}`))).data.map(
        (task: Json) => task.goal,
      );
    expect(await goals('')).toEqual(['scout', 'scribe', 'scout']);
    expect(await goals(`recipient=${own.larkspur.agentId}`)).toEqual(['scribe']);
    expect(await goals('state=pending&order=desc')).toEqual(['scout', 'scribe', 'scout']);
    expect(await goals('state=done')).toEqual([]);
    await expectStatus(400, own.tamarack.member.get(`${own.path}/tasks?state=open`));
  });
});

describe('memory', () => {
  test('is stored with category and tags, and listed by category and author', async () => {
    const own = await anotherRoom();
    const entry = { type: 'memory', category: 'decision', content: 'We ship on Monday', tags: ['launch', 'date'] };
    const written = await expectStatus(201, post(own.larkspur.service, entry, own.path));
    expect(written).toMatchObject({ id: expect.stringMatching(/^mem_/), wakes: [] });
    const one = await expectStatus(200, own.tamarack.member.get(`${own.path}/memory/${written.id}`));
    expect(one).toMatchObject({
      category: 'decision',
      content: entry.content,
      tags: entry.tags,
      visibility: 'shared',
      deprecated_at: null,
    });
    expect(one.author).toMatchObject({ kind: 'service', name: 'Service' });
    await expectStatus(
      201,
      post(own.larkspur.agent, { ...entry, category: 'fact', content: 'Monday is the 10th' }, own.path),
    );
    const contents = async (query: string) =>
      (await expectStatus(200, own.tamarack.member.get(`${own.path}/memory?${query}`))).data.map(
        (line: Json) => line.category,
      );
    expect(await contents('')).toEqual(['decision', 'fact']);
    expect(await contents('category=fact')).toEqual(['fact']);
    expect(await contents(`author=${own.larkspur.agentId}`)).toEqual(['fact']);
    expect(await contents(`author=${one.author.id}`)).toEqual(['decision']);
    await api.db.memoryEntry.update({ where: { id: written.id }, data: { deprecatedAt: new Date() } });
    expect(await contents('')).toEqual(['fact']);
    expect(await contents('include_deprecated=true')).toEqual(['decision', 'fact']);
    await expectStatus(400, own.tamarack.member.get(`${own.path}/memory?include_deprecated=yes`));
    await expectStatus(400, own.tamarack.member.get(`${own.path}/memory?author=${newId('room')}`));
  });

  test.each([
    [{ category: 'rumour' }, '/category'],
    [{ content: ' ' }, '/content'],
    [{ content: 'x'.repeat(TEXT_LIMIT + 1) }, '/content'],
    [{ tags: Array(21).fill('x') }, '/tags'],
    [{ tags: ['x'.repeat(65)] }, '/tags/0'],
    [{ visibility: 'secret' }, '/visibility'],
  ])('with %j is refused', async (change, pointer) => {
    const event = { type: 'memory', category: 'fact', content: 'x', ...change };
    expect(await expectStatus(400, post(room.larkspur.member, event))).toMatchObject({ pointer });
  });
});
