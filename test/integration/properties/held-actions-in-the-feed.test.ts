// The company's feed tells what becomes of its held actions: each change once, as it was, and to nobody else. Their numbers
// are given by readers, so nobody who acts waits for anybody, and nothing that commits late is passed over.

import { createStreams, STREAM_SETTINGS, type Streams } from '../../../api/middleware/event-streams';
import { expireHeldActions } from '../../../prisma/store/runs/held-actions/decide';
import { numberChanges } from '../../../prisma/store/runs/held-actions/feed';
import { openHeldActions } from '../../../prisma/store/runs/held-actions/open';
import { closeAsLost } from '../../../prisma/store/runs/fence';
import { Database } from '../../../prisma/store/db/database';
import type { PipelineTx, Tx } from '../../../prisma/store/db/transaction';
import type { ApiClient, Json } from '../../support/api';
import { openWorldApi, type WorldApi } from '../../support/world-api';
import { openEvents, type EventReader } from '../../support/event-source';
import { decide, heldRun, letExpire, FULL_REPLY, SEND, setRights } from '../../support/held-actions';
import { HOLD_EXPIRY_MS } from '../../support/runs';
import { activitiesOf, holdTransaction, repliedRun, untilWaiting, type OpenRun } from '../../support/store-runs';
import { createWorld, type World } from '../../support/world';
import { repetitions } from '../../support/test-runs';

const HOLD_SEND = { task_send: 'hold' } as const;
const STEP = 'task_send:1';

let world: World;
let streams: Streams;
let door: WorldApi;

beforeEach(async () => {
  world = await createWorld({ modelUrl: 'http://127.0.0.1:9/v1' });
  // A poll that no test lives to see: what comes was told of.
  streams = createStreams({ db: world.db, databaseUrl: world.url }, { ...STREAM_SETTINGS, pollMs: 3_600_000 });
  door = await openWorldApi(world, world.db, streams);
});
afterEach(async () => {
  await streams.close();
  await door.close();
  await world.close();
});

async function readPage(by: ApiClient, cursor = '', limit = 200): Promise<{ data: Json[]; next: string }> {
  const { status, body } = await by.get(`/v1/feed?limit=${limit}${cursor && `&cursor=${cursor}`}`);
  if (status !== 200) throw new Error(`the feed answers ${status}`);
  return { data: body.data, next: body.next_cursor };
}
const heldIn = (data: readonly Json[]): Json[] => data.filter((event) => event.type === 'held_action');

/** All changes of held actions after a cursor, however they are paged. */
async function readOn(by: ApiClient, cursor = '', limit = 200): Promise<{ held: Json[]; next: string }> {
  const held: Json[] = [];
  for (let next = cursor; ;) {
    const page = await readPage(by, next, limit);
    held.push(...heldIn(page.data));
    if (page.data.length === 0) return { held, next };
    next = page.next;
  }
}

const openStream = async (from: string): Promise<EventReader> => {
  const { body } = await door.host.admin.post('/v1/keys', { kind: 'service', name: 'reader' });
  return openEvents(`${door.url}/v1/feed${from && `?cursor=${from}`}`, body.token);
};

/** The changes of held actions that a stream brings, as soon as there are so many. */
async function heldFrom(stream: EventReader, count: number): Promise<Json[]> {
  for (let all = count; ; all += 1) {
    const held = heldIn((await stream.received(all)).map(({ data }) => data));
    if (held.length >= count) return held;
  }
}

/** What a reader was told of, in its order. */
const told = (held: readonly Json[]): string[] => held.map(({ data }) => `${data.run} ${data.state}`);
const seqsOf = (held: readonly Json[]): number[] => held.map(({ seq }) => seq);
const upTo = (count: number): number[] => Array.from({ length: count }, (_, n) => n + 1);

/** A run that is about to open its hold. */
async function readyRun(): Promise<OpenRun> {
  await setRights(world, HOLD_SEND);
  return repliedRun(world, { tasks_to_send: [SEND] });
}
const open = (run: OpenRun, db: Database = world.db) => openHeldActions(db, run.execution, run.id, HOLD_EXPIRY_MS);

/** A database whose transactions all run in one open transaction, which the test commits. */
function within(tx: Tx): Database {
  const own: PipelineTx = {
    $queryRaw: (statement, ...values) => tx.$queryRaw(statement, ...values),
    $executeRaw: (statement, ...values) => tx.$executeRaw(statement, ...values),
    $pipeline: (statement, ...values) => ({ rows: tx.$queryRaw(statement, ...values) }),
    afterCommit: (callback) => tx.afterCommit(callback),
    locks: tx.locks,
  };
  class WithinTransaction extends Database {
    protected override attemptSqlTransaction<T>(work: (tx: PipelineTx) => Promise<T>): Promise<T> {
      return work(own);
    }
  }
  return new WithinTransaction(world.db.parts);
}

test('each change is told once, with the action as it was then, wherever a page is cut', async () => {
  const run = await heldRun(world, HOLD_SEND, { tasks_to_send: [SEND] });
  const first = await readOn(door.host.member);
  const shown = { room: world.roomId, company: world.host.id, author: null };
  expect(first.held).toMatchObject([
    { ...shown, seq: 1, data: { state: 'held', step: STEP, run: run.id, decision: null, decided_by: null } },
  ]);
  expect((await decide(world, door.host.member, run.id, STEP, 'approve')).status).toBe(200);
  await activitiesOf(world, run.execution).sendTask({ run: run.id, step: STEP });
  const since = await readOn(door.host.member, first.next);
  expect(since.held).toMatchObject([
    { ...shown, seq: 2, data: { state: 'approved', decision: 'approve', decided_by: { name: 'Mel' } } },
    { ...shown, seq: 3, data: { state: 'executed', decision: 'approve', action: { goal: SEND.goal } } },
  ]);
  expect((await readOn(door.host.member, since.next)).held).toEqual([]);

  const whole = await readOn(door.host.member);
  // Of the action that is held no more: as it was, but for its run, which is over.
  expect(whole.held[0]).toEqual({
    ...first.held[0],
    data: { ...first.held[0].data, run_state: 'closed', run_ending: 'silent' },
  });
  expect(whole.held.map(({ at, data }) => at === data.changed_at)).toEqual([true, true, true]);
  expect(new Set(whole.held.map(({ id }) => id)).size).toBe(3);
  for (const limit of [1, 2, 5]) expect((await readOn(door.host.member, '', limit)).held).toEqual(whole.held);
});

test('a no, an expiry and a run that ends otherwise are told too', async () => {
  const [refused, late, lost] = [
    await heldRun(world, HOLD_SEND),
    await heldRun(world, HOLD_SEND),
    await heldRun(world, HOLD_SEND),
  ];
  const { next } = await readOn(door.host.member);
  await decide(world, door.host.member, refused.id, STEP, 'decline');
  await letExpire(world, late.id, STEP);
  await expireHeldActions(world.db, 10);
  await closeAsLost(world.db, lost.id);
  expect((await readOn(door.host.member, next)).held).toMatchObject([
    { data: { run: refused.id, state: 'declined', decision: 'decline' } },
    { data: { run: late.id, state: 'expired', decision: null } },
    { data: { run: lost.id, state: 'superseded', decision: null, run_ending: 'lost' } },
  ]);
});

test('another company’s feed has none of it, and an agent’s key sees its own agent’s', async () => {
  await heldRun(world, HOLD_SEND);
  expect((await readOn(door.guest.member)).held).toEqual([]);
  expect((await readOn(door.guest.agent)).held).toEqual([]);
  expect((await readOn(door.host.agent)).held).toHaveLength(1);
  const other = await world.addAgent({ slug: 'clerk' });
  await world.db.$executeRaw`UPDATE held_actions SET agent_id = ${other.id}`;
  const run = await heldRun(world, HOLD_SEND);
  await world.db.$executeRaw`UPDATE held_action_changes SET agent_id = ${other.id} WHERE number = 1`;
  expect((await readOn(door.host.agent)).held).toMatchObject([{ seq: 2, data: { run: run.id } }]);
  expect(seqsOf((await readOn(door.host.member)).held)).toEqual([1, 2]);
});

test('a redaction has reached what is told of the past', async () => {
  const run = await heldRun(world, HOLD_SEND, { tasks_to_send: [SEND] });
  await decide(world, door.host.member, run.id, STEP, 'approve');
  await activitiesOf(world, run.execution).sendTask({ run: run.id, step: STEP });
  const { effectId } = await world.db.runStep.findFirstOrThrow({ where: { runId: run.id, stepKey: STEP } });
  expect(JSON.stringify(await readOn(door.host.member))).toContain(SEND.goal);
  await door.host.admin.post(`/v1/rooms/${world.roomId}/redactions`, { subject: effectId });
  const { held } = await readOn(door.host.member);
  expect(held.map(({ data }) => [data.state, data.action])).toEqual([
    ['held', null],
    ['approved', null],
    ['executed', null],
  ]);
});

test('whoever stands still in the middle keeps nobody waiting, and is told of when it commits', async () => {
  const [standing, decided, later] = [await readyRun(), await heldRun(world, HOLD_SEND), await readyRun()];
  const { next } = await readOn(door.host.member);
  const stream = await openStream(next);
  const { release } = await holdTransaction(world.db, async (tx) => {
    expect(await open(standing, within(tx))).toMatchObject([{ key: STEP, state: 'held' }]);
  });
  // Before the other in the order of writing, and not there yet.
  expect((await decide(world, door.host.member, decided.id, STEP, 'approve')).status).toBe(200);
  const meanwhile = await readOn(door.host.member, next);
  expect(told(meanwhile.held)).toEqual([`${decided.id} approved`]);
  expect(told(await heldFrom(stream, 1))).toEqual(told(meanwhile.held));
  await open(later);
  expect(told(await heldFrom(stream, 2))).toEqual([`${decided.id} approved`, `${later.id} held`]);

  await release();
  expect(told((await readOn(door.host.member, meanwhile.next)).held)).toEqual([
    `${later.id} held`,
    `${standing.id} held`,
  ]);
  await closeAsLost(world.db, later.id);
  const all = [`${decided.id} held`, `${decided.id} approved`, `${later.id} held`, `${standing.id} held`];
  const { held } = await readOn(door.host.member);
  expect(told(held)).toEqual([...all, `${later.id} superseded`]);
  expect(seqsOf(held)).toEqual(upTo(5));
  expect(seqsOf(await heldFrom(stream, 4))).toEqual([2, 3, 4, 5]);
});

test('whoever numbers waits for whoever numbers, and then goes on from what that one did', async () => {
  const [first, second] = [await readyRun(), await readyRun()];
  const early = await holdTransaction(world.db, (tx) => open(first, within(tx)));
  await open(second);
  const numbering = await holdTransaction(world.db, (tx) => numberChanges(tx, world.host.id));
  // Written before the one that has its number, and to be seen only now.
  await early.release();
  const reading = readOn(door.host.member);
  await untilWaiting(world.db);
  await numbering.release();
  const { held } = await reading;
  expect([told(held), seqsOf(held)]).toEqual([
    [`${second.id} held`, `${first.id} held`],
    [1, 2],
  ]);
});

test('a change that is rolled back leaves no gap', async () => {
  const [run, other] = [await readyRun(), await readyRun()];
  const rolledBack = world.db.transaction(async (tx) => {
    await open(run, within(tx));
    await readOn(door.host.member);
    throw new Error('undone');
  });
  await expect(rolledBack).rejects.toThrow('undone');
  await open(other);
  await open(run);
  const { held } = await readOn(door.host.member);
  expect([told(held), seqsOf(held)]).toEqual([
    [`${other.id} held`, `${run.id} held`],
    [1, 2],
  ]);
});

test('many who write and many who read at once: every reader is told the same, all of it, once', async () => {
  const WRITERS = repetitions(8, 20);
  const runs: OpenRun[] = [];
  for (let n = 0; n < WRITERS; n += 1) runs.push(await readyRun());
  const { next: start } = await readOn(door.host.member);
  const onStreams = await Promise.all([openStream(start), openStream(start), openStream(start)]);
  let writing = true;
  const readAlong = async (limit: number): Promise<Json[]> => {
    const held: Json[] = [];
    for (let next = start, last = false; ;) {
      const page = await readPage(door.host.member, next, limit);
      held.push(...heldIn(page.data));
      next = page.next;
      if (last && page.data.length === 0) return held;
      last = !writing;
    }
  };
  const readers = [1, 3, 7, 200].map(readAlong);
  await Promise.all(
    runs.map(async (run, n) => {
      await open(run);
      if (n % 4 === 0) return closeAsLost(world.db, run.id);
      const answer = await decide(world, door.host.member, run.id, STEP, n % 4 === 1 ? 'decline' : 'approve');
      expect(answer.status).toBe(200);
      if (n % 4 === 3) await activitiesOf(world, run.execution).sendTask({ run: run.id, step: STEP });
    }),
  );
  writing = false;

  const expected = runs.flatMap(({ id }, n) =>
    ['held', ...[['superseded'], ['declined'], ['approved'], ['approved', 'executed']][n % 4]!].map(
      (s) => `${id} ${s}`,
    ),
  );
  const { held: whole } = await readOn(door.host.member, start);
  expect(seqsOf(whole)).toEqual(upTo(expected.length));
  expect(told(whole).sort()).toEqual([...expected].sort());
  // In each action's own order.
  for (const { id } of runs) {
    const of = (list: string[]): string[] => list.filter((line) => line.startsWith(id));
    expect(of(told(whole))).toEqual(of(expected));
  }
  const asTold = whole.map(({ id, seq, data }) => [id, seq, data.state]);
  const seen = [
    ...(await Promise.all(readers)),
    ...(await Promise.all(onStreams.map((s) => heldFrom(s, whole.length)))),
  ];
  for (const held of seen) expect(held.map(({ id, seq, data }) => [id, seq, data.state])).toEqual(asTold);
});

test('a feed that nobody looked at for long is numbered piece by piece, and has all of it', async () => {
  const other = await world.addAgent({ slug: 'clerk' });
  await heldRun(world, HOLD_SEND);
  await world.db.$executeRaw`
    INSERT INTO held_action_changes (held_action_id, company_id, agent_id, state, at)
    SELECT id, company_id, ${other.id}, state, changed_at FROM held_actions, generate_series(1, 2500)`;
  const last = await heldRun(world, HOLD_SEND);
  const unnumbered = () => world.db.heldActionChange.count({ where: { number: null } });
  await readPage(door.host.member, '', 50);
  expect(await unnumbered()).toBe(1_502);
  // This agent's own are the first and the last: all between had to be numbered to know.
  const own = await readOn(door.host.agent);
  expect([told(own.held)[1], seqsOf(own.held), await unnumbered()]).toEqual([`${last.id} held`, [1, 2_502], 0]);
  expect(seqsOf((await readOn(door.host.member)).held)).toEqual(upTo(2_502));
});

test('a stream is told of each change when it is committed, though nothing happens in the room', async () => {
  const run = await heldRun(world, HOLD_SEND, FULL_REPLY);
  const stream = await openStream((await readOn(door.host.member)).next);
  await decide(world, door.host.member, run.id, STEP, 'approve');
  expect(told(await heldFrom(stream, 1))).toEqual([`${run.id} approved`]);
  const next = await readyRun();
  await open(next);
  await heldFrom(stream, 2);
  await letExpire(world, next.id, STEP);
  await expireHeldActions(world.db, 10);
  expect(told(await heldFrom(stream, 3)).slice(1)).toEqual([`${next.id} held`, `${next.id} expired`]);
});

test('a place that the feed never had is answered with one resync, and a revoked key with the end', async () => {
  const run = await heldRun(world, HOLD_SEND);
  const { body } = await door.host.admin.post('/v1/keys', { kind: 'service', name: 'reader' });
  const ahead = Buffer.from('1:held9').toString('base64url');
  const stream = await openEvents(`${door.url}/v1/feed`, body.token, { lastEventId: ahead });
  expect((await stream.received(1))[0]).toMatchObject({ event: 'resync' });
  await decide(world, door.host.member, run.id, STEP, 'approve');
  expect(told([(await stream.received(2))[1]?.data])).toEqual([`${run.id} approved`]);
  await door.host.admin.delete(`/v1/keys/${body.id}`);
  const another = await heldRun(world, HOLD_SEND);
  await stream.ended;
  expect(JSON.stringify(stream.events)).not.toContain(another.id);
});
