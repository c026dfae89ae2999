// A batch of events: all its events are written in order and without a gap, or none is written.

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

const post = (client: ApiClient, events: unknown) => client.post(`${room.path}/events`, events);
const feed = async (): Promise<Json[]> =>
  (await expectStatus(200, room.larkspur.member.get(`${room.path}/events?limit=200&after=${await start()}`))).data;
const lastSeq = async (): Promise<number> => (await expectStatus(200, room.larkspur.member.get(room.path))).last_seq;
let from = 0;
const start = async (): Promise<number> => from;
beforeEach(async () => {
  from = await lastSeq();
});

const message = (text: string) => ({ type: 'message', text });

test('a batch gets one result for each event, and its numbers have no gap', async () => {
  const posted = await expectStatus(
    201,
    post(room.larkspur.member, [
      message('one'),
      { type: 'task', to: 'scout', goal: 'Count the boats.' },
      { type: 'memory', category: 'fact', content: 'There are boats.' },
      message('two, @scribe'),
    ]),
  );
  const events = await feed();
  expect(posted.map((event: Json) => event.seq)).toEqual([1, 2, 3, 4].map((n) => from + n));
  expect(events.map(({ type, id, seq }) => [type, id, seq])).toEqual(
    ['message', 'task', 'memory', 'message'].map((type, n) => [type, posted[n].event, posted[n].seq]),
  );
  expect(posted.map((event: Json) => event.id)).toEqual(events.map(({ data }) => data.id));
  expect(posted.map((event: Json) => event.wakes.map((wake: Json) => wake.slug))).toEqual([
    [],
    ['scout'],
    [],
    ['scribe'],
  ]);
  expect(
    await api.db.wake.count({ where: { id: { in: [posted[1], posted[3]].map((event) => event.wakes[0].wake) } } }),
  ).toBe(2);
});

test('a batch of one event gets a list of one result', async () => {
  expect(await expectStatus(201, post(room.larkspur.member, [message('alone')]))).toHaveLength(1);
});

test('a batch may have 100 events that each wake an agent', async () => {
  const events = Array.from({ length: 100 }, (_, n) => message(`@scout ${n}`));
  const posted = await expectStatus(201, post(room.larkspur.member, events));
  expect(posted.map((event: Json) => event.wakes.length)).toEqual(Array(100).fill(1));
  expect((await feed()).map(({ data }) => data.text)).toEqual(events.map(({ text }) => text));
});

test('a batch may contain a response to a task and then its verdict, in this order', async () => {
  const task = await expectStatus(201, post(room.larkspur.agent, { type: 'task', to: 'scribe', goal: 'Do it.' }));
  const answered = { type: 'task_response', task: task.id, state: 'done', result: 'done' };
  const judged = { type: 'task_verdict', task: task.id, verdict: 'accepted' };
  const wrong = await expectStatus(409, post(room.larkspur.agent, [judged, answered]));
  expect(wrong).toMatchObject({ code: 'conflict', pointer: '/0' });
  await expectStatus(201, post(room.larkspur.agent, [answered, judged]));
  const shown = await expectStatus(200, room.larkspur.member.get(`${room.path}/tasks/${task.id}`));
  expect(shown).toMatchObject({ state: 'done', verdict: 'accepted' });
});

describe('a batch with one invalid event', () => {
  test.each([
    ['wrong schema', message(' '), 400, '/1/text'],
    ['unknown recipient', { type: 'task', to: 'absent', goal: 'x' }, 400, '/1/to'],
    ['unknown mention', { ...message('x'), mentions: ['scribe', 'absent'] }, 400, '/1/mentions/1'],
    ['unknown type', { type: 'file' }, 400, '/1/type'],
    ['not an object', 'x', 400, '/1'],
    ['an array', [], 400, '/1'],
    [
      'missing permission',
      { type: 'task_response', task: 'task_01h2xcejqtf2nbrexx3vqjhp41', state: 'done', result: 'x' },
      403,
      '/1',
    ],
    ['invalid character', message('a\0b'), 400, '/1/text'],
  ])('(%s) writes nothing and gets a pointer to the event', async (_defect, wrong, status, pointer) => {
    const answer = await post(room.larkspur.member, [message('before'), wrong, message('after')]);
    expect([answer.status, answer.body.pointer]).toEqual([status, pointer]);
    expect(await feed()).toEqual([]);
  });
});

test.each([
  ['0', []],
  ['101', Array.from({ length: 101 }, () => message('x'))],
])('a batch of %s events is refused', async (_count, events) => {
  expect(await expectStatus(400, post(room.larkspur.member, events))).toMatchObject({
    code: 'invalid_input',
    pointer: '',
  });
});

test('a batch over 1 MB is refused as too large', async () => {
  const events = Array.from({ length: 100 }, () => message('x'.repeat(11_000)));
  expect(await expectStatus(413, post(room.larkspur.member, events))).toMatchObject({ code: 'body_too_large' });
});

test('routes other than room events refuse a list as the body', async () => {
  for (const path of ['/v1/keys', '/v1/rooms']) {
    expect(await expectStatus(400, room.larkspur.admin.post(path, [{ name: 'x' }]))).toMatchObject({ pointer: '' });
  }
});

test('two concurrent batches that answer the same tasks in opposite order both succeed', async () => {
  const tasks = [];
  for (let n = 0; n < 6; n += 1) {
    tasks.push((await expectStatus(201, post(room.larkspur.member, { type: 'task', to: 'scribe', goal: `${n}` }))).id);
  }
  const answers = (ids: string[], result: string) =>
    ids.map((task) => ({ type: 'task_response', task, state: 'done', result }));
  const both = await Promise.all([
    post(room.larkspur.agent, answers(tasks, 'a')),
    post(room.larkspur.agent, answers(tasks.toReversed(), 'b')),
  ]);
  expect(both.map(({ status }) => status)).toEqual([201, 201]);
});

test('events of concurrent batches do not interleave', async () => {
  await Promise.all(
    ['a', 'b', 'c', 'd', 'e'].map((writer) =>
      expectStatus(
        201,
        post(
          room.larkspur.member,
          Array.from({ length: 10 }, () => message(writer)),
        ),
      ),
    ),
  );
  const written = (await feed()).map(({ data }) => data.text).join('');
  expect(written).toMatch(/^(([a-e])\2{9}){5}$/);
});
