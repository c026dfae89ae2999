// An agent's inbox: its content, and that a read starts each open task once and adds a room event for it.

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
});
afterAll(() => api.close());

let suffix = 0;
beforeEach(async () => {
  room = await setUpRoom(api, { suffix: `-${(suffix += 1)}` });
});

const post = (client: ApiClient, event: object): Promise<Json> =>
  expectStatus(201, client.post(`${room.path}/events`, event));
const sendTask = async (goal: string): Promise<string> =>
  (await post(room.tamarack.member, { type: 'task', to: `scribe`, goal })).id;
const inbox = (body?: object, client = room.larkspur.agent): Promise<Json> =>
  expectStatus(200, client.post(`${room.path}/inbox`, body));
const startEvents = async (): Promise<Json[]> => {
  const { data } = await expectStatus(200, room.larkspur.member.get(`${room.path}/events?limit=200`));
  return data.filter((event: Json) => event.type === 'task_started');
};

test('the inbox has the open tasks for the agent, now in progress, and the messages to the agent', async () => {
  const first = await sendTask('Draw the plan');
  await post(room.tamarack.member, { type: 'message', text: 'nothing for anybody' });
  const mention = await post(room.tamarack.member, { type: 'message', text: 'all well, @scribe?' });
  await post(room.larkspur.member, { type: 'task', to: 'scout', goal: 'of another agent' });
  const second = await sendTask('Check the plan');

  const read = await inbox();
  expect(read.tasks.map((task: Json) => [task.id, task.state])).toEqual([
    [first, 'in_progress'],
    [second, 'in_progress'],
  ]);
  expect(read.more_tasks).toBe(false);
  expect(read.messages.map((message: Json) => [message.kind, message.task])).toEqual([
    ['task_card', first],
    ['text', null],
    ['task_card', second],
  ]);
  expect(read.messages[1]).toEqual(
    await expectStatus(200, room.larkspur.member.get(`${room.path}/messages/${mention.id}`)),
  );
  expect((await startEvents()).map((event) => [event.author.id, event.data.id, event.data.state])).toEqual([
    [room.larkspur.agentId, first, 'in_progress'],
    [room.larkspur.agentId, second, 'in_progress'],
  ]);
});

test('a read from the cursor shows new messages and the tasks that are still open, and no task starts twice', async () => {
  const first = await sendTask('Draw the plan');
  const before = await inbox();
  const again = await inbox({ cursor: before.next_cursor });
  expect([again.messages, again.next_cursor]).toEqual([[], before.next_cursor]);
  expect(again.tasks.map((task: Json) => task.id)).toEqual([first]);

  await post(room.larkspur.agent, { type: 'task_response', task: first, state: 'done', result: 'drawn' });
  const second = await sendTask('Check the plan');
  const later = await inbox({ cursor: before.next_cursor });
  expect(later.tasks.map((task: Json) => task.id)).toEqual([second]);
  expect(later.messages.map((message: Json) => message.task)).toEqual([second]);
  expect((await startEvents()).map((event) => event.data.id)).toEqual([first, second]);
});

test('concurrent reads start each task once', async () => {
  const tasks = [];
  for (const goal of ['one', 'two', 'three']) tasks.push(await sendTask(goal));
  const reads = await Promise.all(Array.from({ length: 8 }, () => inbox()));
  for (const read of reads) {
    expect(read.tasks.map((task: Json) => [task.id, task.state])).toEqual(tasks.map((id) => [id, 'in_progress']));
  }
  expect((await startEvents()).map((event) => event.data.id)).toEqual(tasks);
});

test('tasks beyond the limit of a read do not start', async () => {
  const tasks = [];
  for (const goal of ['one', 'two', 'three']) tasks.push(await sendTask(goal));
  const read = await inbox({ limit: 2 });
  expect([read.tasks.map((task: Json) => task.id), read.more_tasks]).toEqual([tasks.slice(0, 2), true]);
  expect((await startEvents()).map((event) => event.data.id)).toEqual(tasks.slice(0, 2));
  expect(read.messages).toHaveLength(2);
  const rest = await inbox({ limit: 2, cursor: read.next_cursor });
  expect(rest.messages.map((message: Json) => message.task)).toEqual([tasks[2]]);
});

test('a task starts even if the agent has no right to answer it, as with a claim', async () => {
  await expectStatus(
    200,
    room.larkspur.admin.patch(`${room.path}/roster/${room.larkspur.agentId}`, { preset: 'supervised' }),
  );
  const task = await sendTask('Draw the plan');
  expect((await inbox()).tasks.map((each: Json) => [each.id, each.state])).toEqual([[task, 'in_progress']]);
  const answer = { type: 'task_response', task, state: 'done', result: 'drawn' };
  await expectStatus(403, room.larkspur.agent.post(`${room.path}/events`, answer));
});

test('only agents read an inbox, in open rooms whose roster has the agent', async () => {
  for (const client of [room.larkspur.admin, room.larkspur.member, room.larkspur.service]) {
    const answer = await client.post(`${room.path}/inbox`);
    expect([answer.status, answer.body.code, answer.body.detail]).toEqual([
      403,
      'not_allowed',
      'this request needs the key of an agent',
    ]);
  }
  const outsider = await setUpCompany(api, `alder-${suffix}`, `Alder ${suffix}`, 'outsider');
  await expectStatus(404, outsider.agent.post(`${room.path}/inbox`));
  await expectStatus(200, room.larkspur.admin.delete(`${room.path}/roster/${room.larkspur.agentId}`));
  await expectStatus(404, room.larkspur.agent.post(`${room.path}/inbox`));
  await expectStatus(200, room.tamarack.agent.post(`${room.path}/inbox`));
  await expectStatus(200, room.larkspur.admin.post(`${room.path}/close`));
  expect((await expectStatus(409, room.tamarack.agent.post(`${room.path}/inbox`))).code).toBe('conflict');
});

test('a read with an Idempotency-Key reads again, and its answer is not stored', async () => {
  await post(room.tamarack.member, { type: 'message', text: '@scribe inbox-canary' });
  const headers = { 'idempotency-key': 'again' };
  const read = (): Promise<Json> =>
    expectStatus(200, room.larkspur.agent.send('POST', `${room.path}/inbox`, { headers }));
  expect((await read()).messages).toHaveLength(1);
  await post(room.tamarack.member, { type: 'message', text: '@scribe and more' });
  expect((await read()).messages).toHaveLength(2);
  expect(await api.db.storedAnswer.count({ where: { key: 'again' } })).toBe(0);
  const malformed = { 'idempotency-key': 'a b' };
  const answer = await room.larkspur.agent.send('POST', `${room.path}/inbox`, { headers: malformed });
  expect([answer.status, answer.body.parameter]).toEqual([400, 'Idempotency-Key']);
});

test.each([
  [{ limit: 0 }, '/limit'],
  [{ limit: 201 }, '/limit'],
  [{ limit: '2' }, '/limit'],
  [{ cursor: 'x' }, '/cursor'],
  [{ since: 1 }, '/since'],
])('the inbox refuses %j', async (body, pointer) => {
  const answer = await room.larkspur.agent.post(`${room.path}/inbox`, body);
  expect([answer.status, answer.body.code, answer.body.pointer]).toEqual([400, 'invalid_input', pointer]);
});
