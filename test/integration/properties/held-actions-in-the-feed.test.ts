// The feed of a company contains each change of its held actions once, with the state at that time, and no other company
// sees it. Readers assign the numbers, so writers do not wait for each other, and no late commit is skipped.

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
let api: WorldApi;

beforeEach(async () => {
  world = await createWorld({ modelUrl: 'http://127.0.0.1:9/v1' });
  // The poll interval exceeds every test, so each event comes from a notification.
  streams = createStreams({ db: world.db, databaseUrl: world.url }, { ...STREAM_SETTINGS, pollMs: 3_600_000 });
  api = await openWorldApi(world, world.db, streams);
});
afterEach(async () => {
  await streams.close();
  await api.close();
  await world.close();
});

async function readPage(by: ApiClient, cursor = '', limit = 200): Promise<{ data: Json[]; next: string }> {
  const { status, body } = await by.get(`/v1/feed?limit=${limit}${cursor && `&cursor=${cursor}`}`);
  if (status !== 200) throw new Error(`the feed answers ${status}`);
  return { data: body.data, next: body.next_cursor };
}
const heldIn = (data: readonly Json[]): Json[] => data.filter((event) => event.type === 'held_action');

/** All changes of held actions after a cursor, read page by page. */
async function readAllPages(by: ApiClient, cursor = '', limit = 200): Promise<{ held: Json[]; next: string }> {
  const held: Json[] = [];
  for (let next = cursor; ;) {
    const page = await readPage(by, next, limit);
    held.push(...heldIn(page.data));
    if (page.data.length === 0) return { held, next };
    next = page.next;
  }
}

const openStream = async (from: string): Promise<EventReader> => {
  const { body } = await api.host.admin.post('/v1/keys', { kind: 'service', name: 'reader' });
  return openEvents(`${api.url}/v1/feed${from && `?cursor=${from}`}`, body.token);
};

/** Waits until a stream has sent `count` changes of held actions, and returns them. */
async function heldFrom(stream: EventReader, count: number): Promise<Json[]> {
  for (let all = count; ; all += 1) {
    const held = heldIn((await stream.received(all)).map(({ data }) => data));
    if (held.length >= count) return held;
  }
}

/** The run and state of each change, in the order of the reader. */
const statesIn = (held: readonly Json[]): string[] => held.map(({ data }) => `${data.run} ${data.state}`);
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

test('each change appears once, with the action at that time, for every page size', async () => {
  const run = await heldRun(world, HOLD_SEND, { tasks_to_send: [SEND] });
  const first = await readAllPages(api.host.member);
  const shown = { room: world.roomId, company: world.host.id, author: null };
  expect(first.held).toMatchObject([
    { ...shown, seq: 1, data: { state: 'held', step: STEP, run: run.id, decision: null, decided_by: null } },
  ]);
  expect((await decide(world, api.host.member, run.id, STEP, 'approve')).status).toBe(200);
  await activitiesOf(world, run.execution).sendTask({ run: run.id, step: STEP });
  const since = await readAllPages(api.host.member, first.next);
  expect(since.held).toMatchObject([
    { ...shown, seq: 2, data: { state: 'approved', decision: 'approve', decided_by: { name: 'Mel' } } },
    { ...shown, seq: 3, data: { state: 'executed', decision: 'approve', action: { goal: SEND.goal } } },
  ]);
  expect((await readAllPages(api.host.member, since.next)).held).toEqual([]);

  const whole = await readAllPages(api.host.member);
  // The first change still shows the held action. Only the state of its run is current.
  expect(whole.held[0]).toEqual({
    ...first.held[0],
    data: { ...first.held[0].data, run_state: 'closed', run_ending: 'silent' },
  });
  expect(whole.held.map(({ at, data }) => at === data.changed_at)).toEqual([true, true, true]);
  expect(new Set(whole.held.map(({ id }) => id)).size).toBe(3);
  for (const limit of [1, 2, 5]) expect((await readAllPages(api.host.member, '', limit)).held).toEqual(whole.held);
});

test('the feed also has a declined, an expired and a superseded action', async () => {
  const [refused, late, lost] = [
    await heldRun(world, HOLD_SEND),
    await heldRun(world, HOLD_SEND),
    await heldRun(world, HOLD_SEND),
  ];
  const { next } = await readAllPages(api.host.member);
  await decide(world, api.host.member, refused.id, STEP, 'decline');
  await letExpire(world, late.id, STEP);
  await expireHeldActions(world.db, 10);
  await closeAsLost(world.db, lost.id);
  expect((await readAllPages(api.host.member, next)).held).toMatchObject([
    { data: { run: refused.id, state: 'declined', decision: 'decline' } },
    { data: { run: late.id, state: 'expired', decision: null } },
    { data: { run: lost.id, state: 'superseded', decision: null, run_ending: 'lost' } },
  ]);
});

test('the feed of another company has no such change, and an agent’s key sees only those of its agent', async () => {
  await heldRun(world, HOLD_SEND);
  expect((await readAllPages(api.guest.member)).held).toEqual([]);
  expect((await readAllPages(api.guest.agent)).held).toEqual([]);
  expect((await readAllPages(api.host.agent)).held).toHaveLength(1);
  const other = await world.addAgent({ slug: 'clerk' });
  await world.db.$executeRaw`UPDATE held_actions SET agent_id = ${other.id}`;
  const run = await heldRun(world, HOLD_SEND);
  await world.db.$executeRaw`UPDATE held_action_changes SET agent_id = ${other.id} WHERE number = 1`;
  expect((await readAllPages(api.host.agent)).held).toMatchObject([{ seq: 2, data: { run: run.id } }]);
  expect(seqsOf((await readAllPages(api.host.member)).held)).toEqual([1, 2]);
});

test('a redaction also applies to earlier changes', async () => {
  const run = await heldRun(world, HOLD_SEND, { tasks_to_send: [SEND] });
  await decide(world, api.host.member, run.id, STEP, 'approve');
  await activitiesOf(world, run.execution).sendTask({ run: run.id, step: STEP });
  const { effectId } = await world.db.runStep.findFirstOrThrow({ where: { runId: run.id, stepKey: STEP } });
  expect(JSON.stringify(await readAllPages(api.host.member))).toContain(SEND.goal);
  await api.host.admin.post(`/v1/rooms/${world.roomId}/redactions`, { subject: effectId });
  const { held } = await readAllPages(api.host.member);
  expect(held.map(({ data }) => [data.state, data.action])).toEqual([
    ['held', null],
    ['approved', null],
    ['executed', null],
  ]);
});

test('an open transaction blocks no writer or reader, and its change appears after its commit', async () => {
  const [uncommitted, decided, later] = [await readyRun(), await heldRun(world, HOLD_SEND), await readyRun()];
  const { next } = await readAllPages(api.host.member);
  const stream = await openStream(next);
  const { release } = await holdTransaction(world.db, async (tx) => {
    expect(await open(uncommitted, within(tx))).toMatchObject([{ key: STEP, state: 'held' }]);
  });
  // The uncommitted change was written first and is not visible yet.
  expect((await decide(world, api.host.member, decided.id, STEP, 'approve')).status).toBe(200);
  const meanwhile = await readAllPages(api.host.member, next);
  expect(statesIn(meanwhile.held)).toEqual([`${decided.id} approved`]);
  expect(statesIn(await heldFrom(stream, 1))).toEqual(statesIn(meanwhile.held));
  await open(later);
  expect(statesIn(await heldFrom(stream, 2))).toEqual([`${decided.id} approved`, `${later.id} held`]);

  await release();
  expect(statesIn((await readAllPages(api.host.member, meanwhile.next)).held)).toEqual([
    `${later.id} held`,
    `${uncommitted.id} held`,
  ]);
  await closeAsLost(world.db, later.id);
  const all = [`${decided.id} held`, `${decided.id} approved`, `${later.id} held`, `${uncommitted.id} held`];
  const { held } = await readAllPages(api.host.member);
  expect(statesIn(held)).toEqual([...all, `${later.id} superseded`]);
  expect(seqsOf(held)).toEqual(upTo(5));
  expect(seqsOf(await heldFrom(stream, 4))).toEqual([2, 3, 4, 5]);
});

test('a reader that numbers changes waits for another such reader, and continues its numbers', async () => {
  const [first, second] = [await readyRun(), await readyRun()];
  const early = await holdTransaction(world.db, (tx) => open(first, within(tx)));
  await open(second);
  const numbering = await holdTransaction(world.db, (tx) => numberChanges(tx, world.host.id));
  // This change was written before the numbered change, and becomes visible only now.
  await early.release();
  const reading = readAllPages(api.host.member);
  await untilWaiting(world.db);
  await numbering.release();
  const { held } = await reading;
  expect([statesIn(held), seqsOf(held)]).toEqual([
    [`${second.id} held`, `${first.id} held`],
    [1, 2],
  ]);
});

test('a change that is rolled back leaves no gap', async () => {
  const [run, other] = [await readyRun(), await readyRun()];
  const rolledBack = world.db.transaction(async (tx) => {
    await open(run, within(tx));
    await readAllPages(api.host.member);
    throw new Error('undone');
  });
  await expect(rolledBack).rejects.toThrow('undone');
  await open(other);
  await open(run);
  const { held } = await readAllPages(api.host.member);
  expect([statesIn(held), seqsOf(held)]).toEqual([
    [`${other.id} held`, `${run.id} held`],
    [1, 2],
  ]);
});

test('concurrent readers during concurrent writes all get the same changes, completely and once', async () => {
  const WRITERS = repetitions(8, 20);
  const runs: OpenRun[] = [];
  for (let n = 0; n < WRITERS; n += 1) runs.push(await readyRun());
  const { next: start } = await readAllPages(api.host.member);
  const onStreams = await Promise.all([openStream(start), openStream(start), openStream(start)]);
  let writing = true;
  const readDuringWrites = async (limit: number): Promise<Json[]> => {
    const held: Json[] = [];
    for (let next = start, last = false; ;) {
      const page = await readPage(api.host.member, next, limit);
      held.push(...heldIn(page.data));
      next = page.next;
      if (last && page.data.length === 0) return held;
      last = !writing;
    }
  };
  const readers = [1, 3, 7, 200].map(readDuringWrites);
  await Promise.all(
    runs.map(async (run, n) => {
      await open(run);
      if (n % 4 === 0) return closeAsLost(world.db, run.id);
      const answer = await decide(world, api.host.member, run.id, STEP, n % 4 === 1 ? 'decline' : 'approve');
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
  const { held: whole } = await readAllPages(api.host.member, start);
  expect(seqsOf(whole)).toEqual(upTo(expected.length));
  expect(statesIn(whole).sort()).toEqual([...expected].sort());
  // The changes of each run are in order.
  for (const { id } of runs) {
    const of = (list: string[]): string[] => list.filter((line) => line.startsWith(id));
    expect(of(statesIn(whole))).toEqual(of(expected));
  }
  const expectedChanges = whole.map(({ id, seq, data }) => [id, seq, data.state]);
  const seen = [
    ...(await Promise.all(readers)),
    ...(await Promise.all(onStreams.map((s) => heldFrom(s, whole.length)))),
  ];
  for (const held of seen) expect(held.map(({ id, seq, data }) => [id, seq, data.state])).toEqual(expectedChanges);
});

test('a feed without readers for a long time is numbered in parts, and is complete', async () => {
  const other = await world.addAgent({ slug: 'clerk' });
  await heldRun(world, HOLD_SEND);
  await world.db.$executeRaw`
    INSERT INTO held_action_changes (held_action_id, company_id, agent_id, state, at)
    SELECT id, company_id, ${other.id}, state, changed_at FROM held_actions, generate_series(1, 2500)`;
  const last = await heldRun(world, HOLD_SEND);
  const unnumbered = () => world.db.heldActionChange.count({ where: { number: null } });
  await readPage(api.host.member, '', 50);
  expect(await unnumbered()).toBe(1_502);
  // The first and the last change are this agent's. To find them, all changes between had to be numbered.
  const own = await readAllPages(api.host.agent);
  expect([statesIn(own.held)[1], seqsOf(own.held), await unnumbered()]).toEqual([`${last.id} held`, [1, 2_502], 0]);
  expect(seqsOf((await readAllPages(api.host.member)).held)).toEqual(upTo(2_502));
});

test('a stream gets each change at its commit, even without a room event', async () => {
  const run = await heldRun(world, HOLD_SEND, FULL_REPLY);
  const stream = await openStream((await readAllPages(api.host.member)).next);
  await decide(world, api.host.member, run.id, STEP, 'approve');
  expect(statesIn(await heldFrom(stream, 1))).toEqual([`${run.id} approved`]);
  const next = await readyRun();
  await open(next);
  await heldFrom(stream, 2);
  await letExpire(world, next.id, STEP);
  await expireHeldActions(world.db, 10);
  expect(statesIn(await heldFrom(stream, 3)).slice(1)).toEqual([`${next.id} held`, `${next.id} expired`]);
});

test('a cursor beyond the feed gets one resync, and a revoked key ends the stream', async () => {
  const run = await heldRun(world, HOLD_SEND);
  const { body } = await api.host.admin.post('/v1/keys', { kind: 'service', name: 'reader' });
  const ahead = Buffer.from('1:held9').toString('base64url');
  const stream = await openEvents(`${api.url}/v1/feed`, body.token, { lastEventId: ahead });
  expect((await stream.received(1))[0]).toMatchObject({ event: 'resync' });
  await decide(world, api.host.member, run.id, STEP, 'approve');
  expect(statesIn([(await stream.received(2))[1]?.data])).toEqual([`${run.id} approved`]);
  await api.host.admin.delete(`/v1/keys/${body.id}`);
  const another = await heldRun(world, HOLD_SEND);
  await stream.ended;
  expect(JSON.stringify(stream.events)).not.toContain(another.id);
});
