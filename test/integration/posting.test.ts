// Writes into a room: addressed and woken agents, states of a task, numbers without gaps, and atomic writes.

import { RoomDraft, type Author } from '../../prisma/store/rooms/room-draft';
import { Conflict, InvalidInput, NotAllowed, NotFound } from '../../prisma/store/db/errors';
import { newId } from '../../prisma/store/db/ids';
import { stageMemory } from '../../prisma/store/rooms/memory';
import { hopOfAgentPost, stageMessage, type MessageToPost } from '../../prisma/store/rooms/messages';
import { lockRoomForWrite, type RoomForWrite } from '../../prisma/store/rooms/roster';
import { recordVerdict, respondToTask, stageTask, type TaskToSend } from '../../prisma/store/rooms/tasks';
import type { Tx } from '../../prisma/store/db/transaction';
import { openRoom } from '../support/rooms';
import { eventsOf, holdTransaction, untilWaiting } from '../support/store-runs';
import { createWorld, type TestAgent, type World } from '../support/world';

const MODEL_URL = 'http://127.0.0.1:9/v1';
let world: World;
let scribe: Author;
let scout: Author;

beforeAll(async () => {
  world = await createWorld({ modelUrl: MODEL_URL });
  scribe = authorOf(world.scribe);
  scout = authorOf(world.scout);
});
afterAll(() => world.close());

const authorOf = ({ id, name, companyId }: TestAgent): Author => ({ kind: 'agent', id, name, companyId });

/** Writes like the API does: locks the membership, stages the rows, and appends them. */
function write<T>(author: Author, work: (tx: Tx, draft: RoomDraft, room: RoomForWrite) => Promise<T>): Promise<T> {
  return world.db.transaction(async (tx) => {
    const room = await lockRoomForWrite(tx, world.roomId, author.companyId);
    const draft = new RoomDraft(world.roomId);
    const came = await work(tx, draft, room);
    await draft.append(tx);
    return came;
  });
}

const post = (message: Partial<MessageToPost> & { text: string }, author = world.host.person) =>
  write(author, (tx, draft, room) =>
    stageMessage(tx, draft, room, { author, mentions: [], hop: 0, runId: null, refersTo: null, ...message }),
  );
const sendTask = (task: Partial<TaskToSend> = {}, sender = world.host.person) => {
  const usual = {
    to: 'scribe',
    goal: 'a goal',
    acceptanceCriteria: ['it works'],
    priority: 'high',
    deadline: '2026-12-24',
  } as const;
  const rest = { memoryRefs: [], attachments: [], hop: 0, runId: null, refersTo: null };
  return write(sender, (tx, draft, room) => stageTask(tx, draft, room, { sender, ...usual, ...rest, ...task }));
};
const respond = (taskId: string, result: string, responder = scribe, hop = 1) =>
  write(responder, (tx, draft, room) =>
    respondToTask(tx, draft, room, { responder, taskId, state: 'done', result, hop, runId: null }),
  );
const judge = (taskId: string, verdict: 'accepted' | 'rejected', by = world.host.person) =>
  write(by, (tx, draft, room) => recordVerdict(tx, draft, room, { judge: by, taskId, verdict, note: null }));
const wakesOf = async (messageId: string) =>
  (await world.db.wake.findMany({ where: { messageId }, orderBy: { agentId: 'asc' } })).map((wake) => wake.agentId);
const addressedBy = async (messageId: string) =>
  (await world.db.messageAddressee.findMany({ where: { messageId }, orderBy: { agentId: 'asc' } })).map(
    (row) => row.agentId,
  );
const lastSeq = async () => (await world.db.room.findUniqueOrThrow({ where: { id: world.roomId } })).lastSeq;

describe('a message', () => {
  test('that mentions an agent three times and lists it wakes it once, and wakes no other agent', async () => {
    const { messageId, wakes } = await post({ text: '@scribe @Scribe and (@scribe)', mentions: ['scribe'] });
    expect(wakes).toMatchObject([{ slug: 'scribe', status: 'pending', reason: null }]);
    expect(await wakesOf(messageId)).toEqual([world.scribe.id]);
    expect(await addressedBy(messageId)).toEqual([world.scribe.id]);
  });

  test('addresses the agents in its text and the listed agents, in any company', async () => {
    const { messageId } = await post({ text: 'hello @scribe', mentions: ['SCOUT'] });
    expect(await wakesOf(messageId)).toEqual([world.scribe.id, world.scout.id].sort());
  });

  test('that lists an agent outside the room is refused completely', async () => {
    const before = await lastSeq();
    const refused = post({ text: '@scribe', mentions: ['scribe', 'unknown'] });
    await expect(refused).rejects.toMatchObject({ constructor: InvalidInput, pointer: '/mentions/1' });
    expect(await lastSeq()).toBe(before);
  });

  test('addresses its author but does not wake it', async () => {
    const { messageId, wakes } = await post({ text: '@scribe talks of itself to @scout' }, scribe);
    expect(wakes.map((wake) => wake.slug)).toEqual(['scout']);
    expect(await addressedBy(messageId)).toEqual([world.scribe.id, world.scout.id].sort());
  });

  test('addresses an agent that is not always on but does not wake it', async () => {
    const clerk = await world.addAgent({ slug: 'clerk' });
    await world.db.agent.update({ where: { id: clerk.id }, data: { alwaysOn: false } });
    const { messageId, wakes } = await post({ text: '@clerk' });
    expect(wakes).toEqual([]);
    expect(await addressedBy(messageId)).toEqual([clerk.id]);
  });

  test('wakes at most ten agents; one that would wake eleven is refused completely', async () => {
    const crowd = Array.from({ length: 11 }, (_, index) => `crowd-${index}`);
    for (const slug of crowd) await world.addAgent({ slug });
    const ten = await post({ text: '@clerk', mentions: crowd.slice(0, 10) });
    expect(await wakesOf(ten.messageId)).toHaveLength(10);
    const before = await lastSeq();
    await expect(post({ text: '', mentions: crowd })).rejects.toThrow(InvalidInput);
    expect(await lastSeq()).toBe(before);
  });

  test('at the hop limit wakes an agent; one hop deeper the wake is suppressed visibly', async () => {
    expect((await post({ text: '@scribe', hop: 8 })).wakes).toMatchObject([{ status: 'pending' }]);
    const { messageId, wakes } = await post({ text: '@scribe', hop: 9 });
    expect(wakes).toMatchObject([{ status: 'suppressed', reason: 'hop_limit' }]);
    const events = (await eventsOf(world)).slice(-2);
    expect(events).toMatchObject([
      { type: 'message', subjectId: messageId, data: { hop: 9 } },
      { type: 'wake_suppressed', data: { message: messageId, reason: 'hop_limit' } },
    ]);
  });

  test('of an agent key is one hop deeper than the newest message that addresses that agent', async () => {
    const hop = () => world.db.transaction((tx) => hopOfAgentPost(tx, world.roomId, lone.id));
    const lone = await world.addAgent({ slug: 'lone' });
    expect(await hop()).toBe(1);
    await post({ text: '@lone', hop: 5 });
    expect(await hop()).toBe(6);
    await post({ text: '@lone again', hop: 2 });
    await post({ text: '@scribe not to that one', hop: 7 });
    expect(await hop()).toBe(3);
    await sendTask({ to: 'lone', hop: 4 });
    expect(await hop()).toBe(5);
  });

  test('is refused if the room was closed while its writer waited', async () => {
    const closing = await holdTransaction(world.db, async (tx) => {
      await tx.$queryRaw`SELECT 1 AS locked FROM room_members WHERE room_id = ${world.roomId} FOR NO KEY UPDATE`;
      await tx.$executeRaw`UPDATE rooms SET closed_at = clock_timestamp() WHERE id = ${world.roomId}`;
    });
    const before = await lastSeq();
    const posting = post({ text: 'am I too late?' }).catch((error: unknown) => error);
    await untilWaiting(world.db);
    await closing.release();
    const outcome = await posting;
    await world.db.room.update({ where: { id: world.roomId }, data: { closedAt: null } });
    expect(outcome).toBeInstanceOf(Conflict);
    expect(await lastSeq()).toBe(before);
  });
});

describe('a task', () => {
  test('wakes its recipient once, even if the goal mentions it, and no other agent in the goal', async () => {
    const { taskId, messageId, wakes } = await sendTask({ goal: '@scribe ask @scout' });
    expect(wakes).toMatchObject([{ slug: 'scribe', status: 'pending' }]);
    expect(await wakesOf(messageId)).toEqual([world.scribe.id]);
    expect(await world.db.wake.findFirstOrThrow({ where: { messageId } })).toMatchObject({ taskId });
    const task = await world.db.task.findUniqueOrThrow({ where: { id: taskId } });
    expect(task).toMatchObject({
      state: 'pending',
      cardMessageId: messageId,
      acceptanceCriteria: ['it works'],
      deadline: '2026-12-24',
    });
    expect(await world.db.message.findUniqueOrThrow({ where: { id: messageId } })).toMatchObject({
      kind: 'task_card',
      taskId,
    });
    const [event] = (await eventsOf(world, 'task')).slice(-1);
    expect(event).toMatchObject({
      subjectId: taskId,
      data: { card: messageId, created_at: task.createdAt.toISOString() },
    });
  });

  test('for an agent outside the room is refused completely, and an agent that sends itself a task is not woken', async () => {
    const before = await lastSeq();
    await expect(sendTask({ to: 'unknown' })).rejects.toThrow(NotFound);
    expect(await lastSeq()).toBe(before);
    expect((await sendTask({ to: 'scribe' }, scribe)).wakes).toEqual([]);
  });

  test('may refer only to memory that its sender may read', async () => {
    const remember = (author: Author, visibility: 'shared' | 'private') =>
      write(author, async (_, draft) =>
        stageMemory(draft, world.roomId, { author, visibility, category: 'fact', tags: [], content: 'c', runId: null }),
      );
    const [shared, own, foreign] = [
      await remember(scout, 'shared'),
      await remember(world.host.person, 'private'),
      await remember(scout, 'private'),
    ];
    const { taskId } = await sendTask({ memoryRefs: [shared.memoryId, own.memoryId] });
    expect((await world.db.task.findUniqueOrThrow({ where: { id: taskId } })).memoryRefs).toEqual([
      shared.memoryId,
      own.memoryId,
    ]);
    for (const unknown of [foreign.memoryId, newId('mem')]) {
      const refused = sendTask({ memoryRefs: [shared.memoryId, unknown] });
      await expect(refused).rejects.toMatchObject({ constructor: InvalidInput, pointer: '/memory_refs/1' });
    }
  });

  test('is answered only by its recipient, in its own room', async () => {
    const { taskId } = await sendTask();
    const elsewhere = await (await openRoom(world, { name: 'elsewhere', modelUrl: MODEL_URL })).sendTask('there');
    await expect(respond(taskId, 'r', scout)).rejects.toThrow(NotAllowed);
    await expect(respond(taskId, 'r', world.host.person)).rejects.toThrow(NotAllowed);
    await expect(respond(elsewhere.taskId, 'r')).rejects.toThrow(NotFound);
    await expect(respond(newId('task'), 'r')).rejects.toThrow(NotFound);
    expect(await world.db.task.findUniqueOrThrow({ where: { id: taskId } })).toMatchObject({
      state: 'pending',
      result: null,
    });
  });

  test('wakes the sending agent by a card when it is answered; for a person the answer is only shown', async () => {
    const agents = await sendTask({}, scout);
    const answer = await respond(agents.taskId, '@scribe did it', scribe, 3);
    expect(answer.wakes).toMatchObject([{ slug: 'scout', status: 'pending' }]);
    expect(await world.db.message.findUniqueOrThrow({ where: { id: answer.messageId } })).toMatchObject({
      kind: 'response_card',
      hop: 3,
      refersTo: agents.messageId,
      taskId: agents.taskId,
    });
    const persons = await sendTask();
    expect((await respond(persons.taskId, 'done')).wakes).toEqual([]);
  });

  test('keeps the last answer before the verdict; the verdict is final and wakes no agent', async () => {
    const { taskId } = await sendTask({}, scout);
    await expect(judge(taskId, 'accepted', scout)).rejects.toThrow(Conflict);
    await respond(taskId, 'first');
    await respond(taskId, 'second');
    await expect(judge(taskId, 'accepted', scribe)).rejects.toThrow(NotAllowed);
    await expect(judge(taskId, 'accepted', world.host.person)).rejects.toThrow(NotAllowed);
    const wakes = await world.db.wake.count();
    await judge(taskId, 'rejected', world.guest.person);
    expect(await world.db.wake.count()).toBe(wakes);
    await expect(respond(taskId, 'third')).rejects.toThrow(Conflict);
    await expect(judge(taskId, 'accepted', scout)).rejects.toThrow(Conflict);
    const task = await world.db.task.findUniqueOrThrow({ where: { id: taskId } });
    expect(task).toMatchObject({ state: 'done', result: 'second', verdict: 'rejected' });
    const cards = await world.db.message.findMany({
      where: { taskId, kind: 'response_card' },
      orderBy: { seq: 'asc' },
    });
    expect(cards.map((card) => card.text)).toEqual(['first', 'second']);
    expect(task.responseMessageId).toBe(cards[1]?.id);
    // Every event shows the task at that moment; the time of sending never changes.
    const events = (await eventsOf(world)).filter((event) => event.subjectId === taskId);
    const created_at = task.createdAt.toISOString();
    expect(events.map((event) => [event.type, event.data])).toMatchObject([
      ['task', { state: 'pending', created_at }],
      ['task_response', { state: 'done', result: 'first', verdict: null, created_at }],
      ['task_response', { state: 'done', result: 'second', response: cards[1]?.id, created_at }],
      ['task_verdict', { verdict: 'rejected', created_at }],
    ]);
  });

  test('gets one of many concurrent verdicts, and the others get a conflict', async () => {
    const { taskId } = await sendTask();
    await respond(taskId, 'done');
    const given = Array.from({ length: 8 }, (_, n) => judge(taskId, n % 2 === 0 ? 'accepted' : 'rejected'));
    const outcomes = await Promise.allSettled(given);
    expect(outcomes.filter((outcome) => outcome.status === 'fulfilled')).toHaveLength(1);
    for (const outcome of outcomes) if (outcome.status === 'rejected') expect(outcome.reason).toBeInstanceOf(Conflict);
    expect((await eventsOf(world, 'task_verdict')).filter((event) => event.subjectId === taskId)).toHaveLength(1);
  });
});

test('every member sees that a private memory entry exists, and no event holds its content', async () => {
  const line = { category: 'decision', tags: ['canary-tag'], content: 'canary', runId: null } as const;
  const author = world.guest.person;
  const { memoryId } = await write(author, async (_, draft) =>
    stageMemory(draft, world.roomId, { author, visibility: 'private', ...line }),
  );
  const entry = await world.db.memoryEntry.findUniqueOrThrow({ where: { id: memoryId } });
  expect(entry).toMatchObject({ content: 'canary', visibility: 'private', companyId: world.guest.id });
  const [event] = (await eventsOf(world, 'memory')).slice(-1);
  const created_at = entry.createdAt.toISOString();
  expect(event?.data).toEqual({
    id: memoryId,
    room: world.roomId,
    company: world.guest.id,
    visibility: 'private',
    created_at,
  });
});

describe('the numbers of a room', () => {
  test('have no gap and no duplicate under twenty writers, and times follow the numbers', async () => {
    const before = await lastSeq();
    const writers = Array.from({ length: 20 }, (_, n) => [
      () => post({ text: `message ${n} @scribe` }),
      () => post({ text: '@unknown', mentions: ['unknown'] }).catch(() => null), // Refused: takes no number.
      () => sendTask({ to: 'scout', goal: `task ${n}` }),
    ]).flat();
    await Promise.all(writers.map((writer) => writer()));
    const events = (await eventsOf(world)).filter((event) => event.seq > before);
    expect(events.map((event) => event.seq)).toEqual(Array.from({ length: 40 }, (_, n) => before + BigInt(n + 1)));
    expect(events.map((event) => event.at.getTime())).toEqual(
      events.map((event) => event.at.getTime()).sort((a, b) => a - b),
    );
    const messages = await world.db.message.findMany({
      where: { roomId: world.roomId, seq: { gt: before } },
      orderBy: { seq: 'asc' },
    });
    expect(messages.map((message) => [message.seq, message.taskId ?? message.id])).toEqual(
      events.map((event) => [event.seq, event.subjectId]),
    );
  });

  test('follow the order in a batch; a batch with a failed row stores nothing', async () => {
    const author = world.host.person;
    const batch = (category: string) =>
      write(author, async (tx, draft, room) => {
        const rest = { hop: 0, runId: null, refersTo: null };
        await stageMessage(tx, draft, room, { author, text: '@scribe batch', mentions: [], ...rest });
        await stageTask(tx, draft, room, {
          sender: author,
          to: 'scout',
          goal: 'batch',
          acceptanceCriteria: [],
          priority: 'low',
          deadline: null,
          memoryRefs: [],
          attachments: [],
          ...rest,
        });
        stageMemory(draft, world.roomId, {
          author,
          visibility: 'shared',
          category: category as 'fact',
          tags: [],
          content: 'batch',
          runId: null,
        });
      });
    const counts = async () =>
      Promise.all([
        lastSeq(),
        world.db.roomEvent.count(),
        world.db.message.count(),
        world.db.messageAddressee.count(),
        world.db.task.count(),
        world.db.memoryEntry.count(),
        world.db.wake.count(),
      ]);
    const before = await counts();
    await expect(batch('nonsense')).rejects.toThrow();
    expect(await counts()).toEqual(before);
    await batch('fact');
    expect((await eventsOf(world)).slice(-3).map((event) => event.type)).toEqual(['message', 'task', 'memory']);
    expect(await lastSeq()).toBe((before[0] ?? 0n) + 3n);
  });
});
