// Redaction: the content is erased from every table; id, seq, author, time and claims stay.

import { activitiesOf, openRun, repliedRun } from '../support/store-runs';
import { createWorld, type World } from '../support/world';
import { claimRequest } from '../../prisma/store/runs/model-requests';
import { redact } from '../../prisma/store/lifecycle/redaction';
import type { Database } from '../../prisma/store/db/database';
import { renderContext } from '../../activities/context/render';
import { newId } from '../../prisma/store/db/ids';
import { expectStatus, setUpRoom, startTestApi, type TestApi, type TestRoom } from '../support/api';

const SECRET = 'marigold-4711';

/** Returns the tables that contain a text in any column. */
async function tablesWith(db: Database, text: string): Promise<string[]> {
  const tables = await db.$queryRaw<{ name: string }[]>`
    SELECT table_name AS name FROM information_schema.tables
    WHERE table_schema = 'public' AND table_type = 'BASE TABLE' ORDER BY 1`;
  const found: string[] = [];
  for (const { name } of tables) {
    const rows = await db.prisma.$queryRawUnsafe<{ n: number }[]>(
      `SELECT count(*)::int AS n FROM "${name}" t WHERE t::text LIKE '%' || $1 || '%'`,
      text,
    );
    if ((rows[0]?.n ?? 0) > 0) found.push(name);
  }
  return found;
}

describe('through the API', () => {
  let api: TestApi;
  let room: TestRoom;

  beforeAll(async () => {
    api = await startTestApi();
    room = await setUpRoom(api);
  });
  afterAll(() => api.close());

  const post = async (body: object, key = room.larkspur.member): Promise<string> =>
    (await expectStatus(201, key.post(`${room.path}/events`, body))).id;
  const redaction = (subject: string, key = room.larkspur.admin) => key.post(`${room.path}/redactions`, { subject });

  test('a message: its text is erased from every table, and its event stays in the feed', async () => {
    const id = await post({ type: 'message', text: `@scribe the word is ${SECRET}` });
    expect(await tablesWith(api.db, SECRET)).toEqual(['messages', 'room_events']);
    const before = await expectStatus(200, room.tamarack.member.get(`${room.path}/messages/${id}`));

    const answer = await expectStatus(200, redaction(id));
    expect(answer).toEqual({ room: room.id, subject: id, kind: 'message', redacted_at: expect.any(String) });
    expect(await tablesWith(api.db, SECRET)).toEqual([]);
    const { redacted_at } = answer;
    const after = await expectStatus(200, room.tamarack.member.get(`${room.path}/messages/${id}`));
    expect(after).toEqual({ ...before, text: '', redacted_at });

    const { data } = await expectStatus(200, room.tamarack.member.get(`${room.path}/events`));
    const shown = data.find((event: { data: { id?: string } }) => event.data.id === id);
    expect(shown.data).toMatchObject({ text: '', redacted_at, author: before.author });
    expect(data.at(-1)).toMatchObject({ type: 'redacted', data: { subject: id, kind: 'message' } });
    expect(await api.db.wake.count({ where: { messageId: id } })).toBe(1);
    // A second request gets the same answer and adds no event.
    expect(await expectStatus(200, redaction(id))).toEqual(answer);
    expect(await api.db.roomEvent.count({ where: { type: 'redacted', subjectId: id } })).toBe(1);
  });

  test('a memory entry: it is erased from reads and search, and is deprecated', async () => {
    const shared = await post({ type: 'memory', category: 'fact', content: `pin ${SECRET}`, tags: [SECRET] });
    const hidden = await post({
      type: 'memory',
      category: 'fact',
      content: `own pin ${SECRET}`,
      visibility: 'private',
    });
    for (const id of [shared, hidden]) await expectStatus(200, redaction(id));
    expect(await tablesWith(api.db, SECRET)).toEqual([]);
    const { data } = await expectStatus(200, room.larkspur.member.get(`${room.path}/memory`));
    expect(data.filter((entry: { id: string }) => [shared, hidden].includes(entry.id))).toEqual([]);
    const entry = await expectStatus(200, room.larkspur.member.get(`${room.path}/memory/${shared}`));
    expect(entry).toMatchObject({ content: '', tags: [], redacted_at: expect.any(String) });
  });

  test('a task is redacted by its sender and a response by its recipient, in every event that shows the task', async () => {
    const { larkspur, tamarack } = room;
    const task = await post({ type: 'task', to: 'scout', goal: `find ${SECRET}`, acceptance_criteria: [SECRET] });
    const result = { type: 'task_response', task, state: 'done', result: `found ${SECRET}` };
    await post(result, tamarack.agent);
    await post({ type: 'task_verdict', task, verdict: 'accepted', note: `thanks for ${SECRET}` });
    const { response, card } = await expectStatus(200, larkspur.member.get(`${room.path}/tasks/${task}`));

    expect((await redaction(response, larkspur.admin)).status).toBe(403);
    await expectStatus(200, redaction(card, larkspur.admin));
    expect(await tablesWith(api.db, `find ${SECRET}`)).toEqual([]);
    expect(await tablesWith(api.db, `thanks for ${SECRET}`)).toEqual([]);
    expect(await tablesWith(api.db, `found ${SECRET}`)).toEqual(['messages', 'room_events', 'tasks']);
    expect(await expectStatus(200, redaction(response, tamarack.admin))).toMatchObject({ kind: 'response' });
    expect(await tablesWith(api.db, SECRET)).toEqual([]);
    expect(await expectStatus(200, larkspur.member.get(`${room.path}/tasks/${task}`))).toMatchObject({
      goal: '',
      acceptance_criteria: [],
      state: 'done',
      result: '',
      verdict: 'accepted',
      verdict_note: null,
      redacted_at: expect.any(String),
    });
  });

  test('only an admin of the author’s company may redact, in a room that the company sees', async () => {
    const { larkspur, tamarack } = room;
    const id = await post({ type: 'message', text: 'ours' });
    for (const key of [larkspur.member, larkspur.service, larkspur.agent, tamarack.admin]) {
      expect((await redaction(id, key)).status).toBe(403);
    }
    expect((await redaction(newId('msg'))).status).toBe(404);
    expect((await larkspur.admin.post(`/v1/rooms/${newId('room')}/redactions`, { subject: id })).status).toBe(404);
    const refused = await redaction('key_01');
    expect(refused.body).toMatchObject({ code: 'invalid_input', pointer: '/subject' });
  });
});

describe('in runs', () => {
  let world: World;

  beforeEach(async () => {
    world = await createWorld({ modelUrl: 'http://127.0.0.1:9/v1' });
  });
  afterEach(() => world.close());

  test('an open run deletes its rendered context and renders it again without the content', async () => {
    const { messageId } = await world.post(`the word is ${SECRET}`);
    const run = await openRun(world);
    const first = await claimRequest(world.db, run.execution, run.id, renderContext);
    expect(JSON.stringify(first)).toContain(SECRET);
    expect(await tablesWith(world.db, SECRET)).toContain('runs');
    await world.db.transaction((tx) => redact(tx, world.roomId, world.host.person, messageId));
    expect(await tablesWith(world.db, SECRET)).toEqual([]);
    const second = await claimRequest(world.db, run.execution, run.id, renderContext);
    expect(second).toMatchObject({ kind: 'send', number: 2 });
    expect(JSON.stringify(second)).not.toContain(SECRET);
  });

  test('text that a run wrote is erased from its stored reply, and its other steps still run', async () => {
    const memory = { category: 'fact', content: 'the line', tags: [], visibility: 'shared' } as const;
    const run = await repliedRun(world, { reply: `it is ${SECRET}`, memory });
    const acting = activitiesOf(world, run.execution);
    expect(await acting.postReply({ run: run.id, step: 'reply' })).toEqual({ state: 'done' });
    const { effectId } = await world.db.runStep.findFirstOrThrow({ where: { runId: run.id } });
    await world.db.transaction((tx) => redact(tx, world.roomId, world.host.person, effectId as string));
    expect(await tablesWith(world.db, SECRET)).toEqual([]);
    expect(await acting.writeMemory({ run: run.id, step: 'memory' })).toEqual({ state: 'done', ending: 'replied' });
    const { steps } = await world.db.run.findUniqueOrThrow({ where: { id: run.id }, include: { steps: true } });
    expect(steps.map((step) => step.state)).toEqual(['done', 'done']);
  });
});
