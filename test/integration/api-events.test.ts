// Posting room events: the effects of each event, its wakes, and that an event is stored whole or not at all.

import { deliverWakes } from '../../prisma/store/runs/wakes';
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
async function anotherRoom(options: Parameters<typeof setUpRoom>[1] = {}): Promise<TestRoom> {
  suffix += 1;
  return setUpRoom(api, { suffix: `-e${suffix}`, ...options });
}

describe('a message', () => {
  test('is appended with its wakes, and every read returns the same message', async () => {
    const posted = await expectStatus(
      201,
      post(room.larkspur.member, { type: 'message', text: 'See @scribe, `@scout`', mentions: ['Scout'] }),
    );
    expect(posted).toEqual({
      seq: expect.any(Number),
      event: expect.stringMatching(/^evt_/),
      id: expect.stringMatching(/^msg_/),
      wakes: [
        {
          wake: expect.stringMatching(/^wake_/),
          agent: room.larkspur.agentId,
          slug: 'scribe',
          status: 'pending',
          reason: null,
        },
        {
          wake: expect.stringMatching(/^wake_/),
          agent: room.tamarack.agentId,
          slug: 'scout',
          status: 'pending',
          reason: null,
        },
      ],
    });
    const message = await expectStatus(200, room.tamarack.member.get(`${room.path}/messages/${posted.id}`));
    expect(message).toMatchObject({
      kind: 'text',
      company: room.larkspur.id,
      author: { kind: 'person', name: 'Member' },
      text: 'See @scribe, `@scout`',
      hop: 0,
      task: null,
      run: null,
    });
    expect(message.mentions.toSorted()).toEqual([room.larkspur.agentId, room.tamarack.agentId].toSorted());
    const event = (await feedOf(room.tamarack.member)).at(-1);
    expect(event).toMatchObject({ id: posted.event, seq: posted.seq, type: 'message', at: message.created_at });
    expect({ ...event.data, mentions: null }).toEqual({ ...message, mentions: null });
    const wake = await expectStatus(200, room.larkspur.member.get(`/v1/wakes/${posted.wakes[0].wake}`));
    expect(wake).toMatchObject({
      agent: room.larkspur.agentId,
      message: posted.id,
      state: 'pending',
      hop: 0,
      run: null,
    });
  });

  test('by an agent has the agent’s name and does not wake that agent', async () => {
    const posted = await expectStatus(201, post(room.larkspur.agent, { type: 'message', text: '@scribe @scout' }));
    expect(posted.wakes.map((wake: Json) => wake.slug)).toEqual(['scout']);
    const message = await expectStatus(200, room.larkspur.member.get(`${room.path}/messages/${posted.id}`));
    expect(message.author).toEqual({ kind: 'agent', id: room.larkspur.agentId, name: 'Scribe' });
  });

  test.each([
    [{ text: '' }, '/text'],
    [{ text: ' \n' }, '/text'],
    [{ text: 'x'.repeat(TEXT_LIMIT + 1) }, '/text'],
    [{ text: undefined }, '/text'],
    [{ mentions: ['absent'] }, '/mentions/0'],
    [{ mentions: ['scribe', ''] }, '/mentions/1'],
    [{ mentions: 'scribe' }, '/mentions'],
    [{ mentions: Array(101).fill('scribe') }, '/mentions'],
  ])('with %.60j is refused', async (change, pointer) => {
    const before = await feedOf(room.larkspur.member);
    const answer = await expectStatus(400, post(room.larkspur.member, { type: 'message', text: 'hi', ...change }));
    expect(answer).toMatchObject({ code: 'invalid_input', pointer });
    expect(await feedOf(room.larkspur.member)).toEqual(before);
  });

  test('may have the maximum length, in any script', async () => {
    await expectStatus(201, post(room.larkspur.member, { type: 'message', text: '語'.repeat(TEXT_LIMIT) }));
  });

  test('that would wake more than ten agents is refused and wakes none', async () => {
    const own = await anotherRoom();
    const admin = own.larkspur.admin;
    for (let n = 0; n < 10; n += 1) {
      const body = { slug: `a${n}`, name: `A${n}`, model: 'm', model_key: own.larkspur.modelKeyId };
      const agent = await expectStatus(201, admin.post('/v1/agents', body));
      await expectStatus(201, admin.post(`${own.path}/roster`, { agent: agent.id }));
    }
    const mentions = Array.from({ length: 10 }, (_, n) => `a${n}`);
    const before = await feedOf(admin, own.path);
    await expectStatus(400, post(admin, { type: 'message', text: '@scribe', mentions }, own.path));
    expect(await feedOf(admin, own.path)).toEqual(before);
    expect(await api.db.wake.count({ where: { roomId: own.id } })).toBe(0);
    expect(
      (await expectStatus(201, post(admin, { type: 'message', text: 'all', mentions }, own.path))).wakes,
    ).toHaveLength(10);
  });
});

describe('the reason of a suppressed wake', () => {
  test('is shown to the agent’s company, and other companies see "unavailable" instead', async () => {
    const own = await anotherRoom();
    const postMention = async (client: ApiClient): Promise<Json> =>
      (await expectStatus(201, post(client, { type: 'message', text: '@scribe' }, own.path))).wakes[0];
    await api.db.modelKey.update({ where: { id: own.larkspur.modelKeyId }, data: { rejectedVersion: 1 } });
    const [mine, theirs] = [await postMention(own.larkspur.member), await postMention(own.tamarack.member)];
    expect(mine).toMatchObject({ status: 'suppressed', reason: 'key_rejected' });
    expect(theirs).toMatchObject({ status: 'suppressed', reason: 'unavailable' });
    for (const [client, reason] of [
      [own.larkspur.service, 'key_rejected'],
      [own.tamarack.service, 'unavailable'],
    ] as const) {
      expect(await expectStatus(200, client.get(`/v1/wakes/${mine.wake}`))).toMatchObject({
        state: 'suppressed',
        reason,
      });
    }
    const event = (await feedOf(own.larkspur.member, own.path)).at(-1);
    expect(event).toMatchObject({
      type: 'wake_suppressed',
      author: null,
      company: own.larkspur.id,
      data: { reason: 'unavailable' },
    });
    await expectStatus(200, own.larkspur.admin.patch(`/v1/model-keys/${own.larkspur.modelKeyId}`, { key: 'sk-new' }));
    expect(await postMention(own.tamarack.member)).toMatchObject({ status: 'pending', reason: null });
  });

  test('is the run allowance if it is used up, and every member sees it', async () => {
    const own = await anotherRoom({ room: { run_allowance: 1 } });
    const text = { type: 'message', text: '@scribe' };
    await expectStatus(201, post(own.larkspur.member, text, own.path));
    const delivered = await deliverWakes(api.db, 1_000);
    expect(delivered.some((wake) => wake.roomId === own.id)).toBe(true);
    const { wakes } = await expectStatus(201, post(own.tamarack.member, text, own.path));
    expect(wakes).toMatchObject([{ status: 'suppressed', reason: 'allowance' }]);
    await expectStatus(200, own.larkspur.admin.patch(own.path, { run_allowance: 5 }));
    expect((await expectStatus(201, post(own.tamarack.member, text, own.path))).wakes).toMatchObject([
      { status: 'pending' },
    ]);
  });

  test('is the hop limit if the hop of a message is above it', async () => {
    const own = await anotherRoom({ room: { hop_limit: 2 } });
    const hops: number[] = [];
    const statuses: string[] = [];
    await expectStatus(201, post(own.larkspur.member, { type: 'message', text: '@scribe' }, own.path));
    for (const [client, text] of [
      [own.larkspur.agent, '@scout'],
      [own.tamarack.agent, '@scribe'],
      [own.larkspur.agent, '@scout'],
    ] as const) {
      const posted = await expectStatus(201, post(client, { type: 'message', text }, own.path));
      statuses.push(posted.wakes[0].reason ?? posted.wakes[0].status);
      hops.push((await expectStatus(200, client.get(`${own.path}/messages/${posted.id}`))).hop);
    }
    expect(hops).toEqual([1, 2, 3]);
    expect(statuses).toEqual(['pending', 'pending', 'hop_limit']);
    const again = await expectStatus(201, post(own.tamarack.member, { type: 'message', text: '@scout' }, own.path));
    expect(again.wakes).toMatchObject([{ status: 'pending' }]);
  });
});

describe('the rights of an agent’s key', () => {
  const EVENTS = {
    reply: { type: 'message', text: 'hi' },
    task_send: { type: 'task', to: 'scout', goal: 'x' },
    memory: { type: 'memory', category: 'fact', content: 'x' },
  } as const;

  test.each(['hold', 'refuse'] as const)('set to "%s" give 403 for that kind of event only', async (right) => {
    const own = await anotherRoom();
    const rosterEntry = `${own.path}/roster/${own.larkspur.agentId}`;
    const sent = await expectStatus(
      201,
      post(own.tamarack.member, { type: 'task', to: 'scribe', goal: 'x' }, own.path),
    );
    const events = { ...EVENTS, task_update: { type: 'task_response', task: sent.id, state: 'done', result: 'x' } };
    for (const kind of Object.keys(events)) {
      const go = { reply: 'go', memory: 'go', task_update: 'go', task_send: 'go' };
      await expectStatus(200, own.larkspur.admin.patch(rosterEntry, { rights: { ...go, [kind]: right } }));
      const before = await feedOf(own.tamarack.member, own.path);
      for (const [other, event] of Object.entries(events)) {
        if (other !== kind) continue;
        const answer = await expectStatus(403, post(own.larkspur.agent, event, own.path));
        expect(answer.detail).toContain(right);
      }
      expect(await feedOf(own.tamarack.member, own.path)).toEqual(before);
      for (const [other, event] of Object.entries(events)) {
        if (other !== kind) await expectStatus(201, post(own.larkspur.agent, event, own.path));
      }
    }
    await expectStatus(201, post(own.larkspur.service, EVENTS.reply, own.path));
  });

  test('end with its roster entry, and the room is not found', async () => {
    const own = await anotherRoom();
    await api.db.roomAgent.updateMany({
      where: { roomId: own.id, agentId: own.larkspur.agentId },
      data: { removedAt: new Date() },
    });
    expect(await expectStatus(404, post(own.larkspur.agent, EVENTS.reply, own.path))).toMatchObject({
      detail: 'no such room',
    });
    await expectStatus(404, own.larkspur.agent.get(`${own.path}/events`));
  });
});

describe('sequence numbers', () => {
  test('have no gaps under concurrent posts, some of which fail', async () => {
    const own = await anotherRoom();
    const clients = [
      own.larkspur.member,
      own.larkspur.service,
      own.larkspur.agent,
      own.tamarack.member,
      own.tamarack.agent,
    ];
    const answers = await Promise.all(
      Array.from({ length: 60 }, (_, n) =>
        post(
          clients[n % clients.length] as ApiClient,
          n % 6 === 5
            ? { type: 'message', text: 'x', mentions: ['absent'] }
            : { type: 'message', text: `${n} @scribe` },
          own.path,
        ),
      ),
    );
    expect(answers.filter((answer) => answer.status === 201)).toHaveLength(50);
    expect(answers.filter((answer) => answer.status === 400)).toHaveLength(10);
    const feed = await feedOf(own.larkspur.member, own.path);
    expect(feed.map((event) => event.seq)).toEqual(feed.map((_, index) => index + 1));
    const times = feed.map((event) => event.at);
    expect(times).toEqual(times.toSorted());
    const postedIds = answers.filter((answer) => answer.status === 201).map((answer) => answer.body.event);
    expect(
      feed
        .filter((event) => event.type === 'message')
        .map((event) => event.id)
        .toSorted(),
    ).toEqual(postedIds.toSorted());
    expect((await own.larkspur.member.get(own.path)).body.last_seq).toBe(feed.length);
    expect(await api.db.message.count({ where: { roomId: own.id } })).toBe(50);
  });
});

test('an event that fails at its last statement stores nothing, and its text is not logged', async () => {
  const own = await anotherRoom();
  const before = await feedOf(own.larkspur.member, own.path);
  await api.db.$executeRaw`
    CREATE FUNCTION refuse_wakes() RETURNS trigger LANGUAGE plpgsql AS
    'BEGIN RAISE EXCEPTION ''row-canary %'', NEW.id USING ERRCODE = ''23514''; END'`;
  await api.db.$executeRaw`
    CREATE TRIGGER refuse BEFORE INSERT ON wakes FOR EACH ROW EXECUTE FUNCTION refuse_wakes()`;
  try {
    const answer = await post(own.larkspur.member, { type: 'message', text: '@scribe text-canary' }, own.path);
    expect([answer.status, answer.body.code]).toEqual([500, 'internal']);
    expect(answer.text).not.toContain('canary');
  } finally {
    await api.db.$executeRaw`DROP TRIGGER refuse ON wakes`;
  }
  const failure =
    api
      .logged()
      .split('\n')
      .find((line) => line.includes('request failed')) ?? '{}';
  expect(JSON.parse(failure)).toMatchObject({ err: { state: '23514', stack: expect.stringContaining(' at ') } });
  expect(api.logged()).not.toContain('canary');
  expect(await feedOf(own.larkspur.member, own.path)).toEqual(before);
  expect(await api.db.message.count({ where: { roomId: own.id } })).toBe(0);
  await expectStatus(201, post(own.larkspur.member, { type: 'message', text: '@scribe' }, own.path));
});
