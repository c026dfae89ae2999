// From a wake's row to a start in Temporal: shared by any number of dispatchers, paid once, repeated until acknowledged.
// Temporal is one function here; the real one is in test/workflow.

import { WorkflowExecutionAlreadyStartedError, type Client } from '@temporalio/client';
import { listRoomEvents } from '../../prisma/store/rooms/events';
import { listenTo } from '../../prisma/channel-listener';
import { RoomDraft, WAKES_CHANNEL } from '../../prisma/store/rooms/room-draft';
import { stageMessage } from '../../prisma/store/rooms/messages';
import { lockRoomForWrite } from '../../prisma/store/rooms/roster';
import { deliverWakes, startAgain } from '../../prisma/store/runs/wakes';
import { claimMessage } from '../../prisma/store/runs/claims';
import { createAcknowledger, dispatchOnce, type DispatcherDeps } from '../../worker/dispatcher';
import { createLoop } from '../../worker/loop';
import { wakeWorkflowId } from '../../workflows/contract';
import { until } from '../support/run-waits';
import { eventsOf, holdTransaction, LIMITS, newExecution, untilWaiting } from '../support/store-runs';
import { createWorld, type World } from '../support/world';

const MODEL_URL = 'http://127.0.0.1:9/v1';
let world: World;

beforeAll(async () => {
  world = await createWorld({ modelUrl: MODEL_URL });
});
afterAll(() => world.close());
afterEach(async () => {
  // Nothing that one test left due is started by the next.
  await world.db.$executeRaw`UPDATE wakes SET started_at = now() WHERE state = 'delivered' AND started_at IS NULL`;
});

type Start = (workflowId: string, options: Record<string, unknown>) => void;

/** A dispatcher whose Temporal does what `start` does, and the workflow ids that were started. */
function dispatcher(start: Start = () => undefined, of = world) {
  const started: string[] = [];
  const failed: string[] = [];
  const workflow = {
    start: async (type: string, options: { workflowId: string } & Record<string, unknown>) => {
      await Promise.resolve();
      start(options.workflowId, { type, ...options });
      started.push(options.workflowId);
      return { firstExecutionRunId: 'run-id' };
    },
  };
  const client = { workflow } as unknown as Client;
  const deps = { db: of.db, client, taskQueue: 'queue', onStartFailed: (wake: { id: string }) => failed.push(wake.id) };
  return {
    started,
    failed,
    once: (more: Pick<DispatcherDeps, 'acknowledged'> = {}) => dispatchOnce({ ...deps, ...more }),
  };
}

const idOf = (messageId: string, agentId = world.scribe.id): string => wakeWorkflowId(agentId, messageId);
const wakeOf = (messageId: string) => world.db.wake.findFirstOrThrow({ where: { messageId } });
const allowance = async () => (await world.db.room.findUniqueOrThrow({ where: { id: world.roomId } })).runAllowance;
/** Makes leases run out now. */
const letLeasesEnd = () =>
  world.db
    .$executeRaw`UPDATE wakes SET due_at = now() - interval '1 second' WHERE state = 'delivered' AND started_at IS NULL`;

test('a wake is delivered and paid for before its workflow is started, under an id that Temporal takes once', async () => {
  const [{ messageId }, before] = [await world.post('@scribe once'), await allowance()];
  expect(await wakeOf(messageId)).toMatchObject({ state: 'pending', deliveredAt: null });
  let options: Record<string, unknown> = {};
  const one = dispatcher((_, given) => (options = given));
  expect(await one.once()).toEqual({ started: 1, failed: 0, full: false });
  expect(options).toMatchObject({
    type: 'agentRun',
    workflowId: idOf(messageId),
    taskQueue: 'queue',
    args: [{ agent: world.scribe.id, message: messageId }],
    workflowIdReusePolicy: 'REJECT_DUPLICATE',
    workflowIdConflictPolicy: 'FAIL',
  });
  expect(await wakeOf(messageId)).toMatchObject({ state: 'delivered', startedAt: expect.any(Date) });
  expect(await allowance()).toBe(before - 1);
  expect(await one.once()).toEqual({ started: 0, failed: 0, full: false });
});

test('starts are noted a moment later where a worker gathers them: of those that nobody has claimed', async () => {
  const posted = [await world.post('@scribe claimed at once'), await world.post('@scribe not yet')];
  const [claimed, waiting] = posted.map(({ messageId }) => messageId) as [string, string];
  const acknowledger = createAcknowledger(world.db, (error) => {
    throw error;
  });
  const one = dispatcher();
  expect(await one.once({ acknowledged: acknowledger.take })).toMatchObject({ started: 2 });
  expect(await wakeOf(waiting)).toMatchObject({ state: 'delivered', startedAt: null });
  const wake = { agentId: world.scribe.id, messageId: claimed };
  await claimMessage(world.db, newExecution(wake.agentId, claimed), wake, LIMITS);
  const { startedAt, dueAt } = await wakeOf(claimed);
  expect(startedAt).toEqual(expect.any(Date));
  await until('the start to be noted', async () => (await wakeOf(waiting)).startedAt !== null);
  expect(await wakeOf(claimed)).toMatchObject({ state: 'claimed', startedAt, dueAt });

  const { messageId } = await world.post('@scribe as the worker stops');
  await one.once({ acknowledged: acknowledger.take });
  await acknowledger.flush();
  expect((await wakeOf(messageId)).startedAt).toEqual(expect.any(Date));
});

test('rooms that can pay and one that cannot, in one pass', async () => {
  const poor = await world.db.room.findUniqueOrThrow({ where: { id: world.roomId } });
  await world.db.room.update({ where: { id: world.roomId }, data: { runAllowance: 1 } });
  const posted = [await world.post('@scribe the last one'), await world.post('@scribe one too many')];
  const one = dispatcher();
  expect(await one.once()).toMatchObject({ started: 1, failed: 0 });
  expect(one.started).toEqual([idOf(posted[0]!.messageId)]);
  expect(await wakeOf(posted[1]!.messageId)).toMatchObject({ state: 'suppressed', reason: 'allowance' });
  await world.db.room.update({ where: { id: world.roomId }, data: { runAllowance: poor.runAllowance } });
});

describe('two dispatchers', () => {
  test('share a hundred wakes, each started once', async () => {
    const posted = await Promise.all(Array.from({ length: 100 }, (_, n) => world.post(`@scribe number ${n}`)));
    const before = await allowance();
    const both = [dispatcher(), dispatcher()];
    await Promise.all(
      both.map(async (one) => {
        while ((await one.once()).full);
      }),
    );
    const started = both.flatMap((one) => one.started);
    expect(started.sort()).toEqual(posted.map(({ messageId }) => idOf(messageId)).sort());
    expect(await allowance()).toBe(before - 100);
  });

  test('spend an allowance exactly; what it no longer pays for is suppressed, in the sight of all', async () => {
    const poor = await createWorld({ modelUrl: MODEL_URL, runAllowance: 60 });
    try {
      // More than one pass takes, so that both dispatchers spend.
      await Promise.all(Array.from({ length: 80 }, (_, n) => poor.post(`@scribe number ${n}`)));
      const both = [dispatcher(undefined, poor), dispatcher(undefined, poor)];
      await Promise.all(both.map((one) => one.once()));
      expect(both.map((one) => one.started.length).sort()).not.toContain(0);
      expect(both.flatMap((one) => one.started)).toHaveLength(60);
      const wakes = await poor.db.wake.groupBy({ by: ['state', 'reason'], _count: true, orderBy: { state: 'asc' } });
      expect(wakes).toMatchObject([
        { state: 'delivered', reason: null, _count: 60 },
        { state: 'suppressed', reason: 'allowance', _count: 20 },
      ]);
      expect((await poor.db.room.findUniqueOrThrow({ where: { id: poor.roomId } })).runAllowance).toBe(0);
      expect(await eventsOf(poor, 'wake_suppressed')).toHaveLength(20);
      // Nothing is left to spend: the next one never becomes pending.
      expect((await poor.post('@scribe one more')).wakes).toMatchObject([
        { status: 'suppressed', reason: 'allowance' },
      ]);
    } finally {
      await poor.close();
    }
  });

  test('do not wait for each other: what one holds, the other passes over', async () => {
    const [held, free] = [await world.post('@scribe held'), await world.post('@scribe free')];
    const other = await holdTransaction(
      world.db,
      (tx) => tx.$queryRaw`SELECT 1 AS locked FROM wakes WHERE message_id = ${held.messageId} FOR UPDATE`,
    );
    const one = dispatcher();
    await one.once();
    expect(one.started).toEqual([idOf(free.messageId)]);
    await other.release();
    await one.once();
    expect(one.started).toEqual([idOf(free.messageId), idOf(held.messageId)]);
  });
});

describe('a gate that shut before delivery suppresses the wake for good, unpaid, in the sight of all', () => {
  const room = () => ({ where: { id: world.roomId } });
  const key = { where: { name: 'key of scribe' } };
  const member = () => ({ where: { roomId: world.roomId, companyId: world.host.id } });
  const place = () => ({ where: { roomId: world.roomId, agentId: world.scribe.id } });
  const gates: [string, string, string, (at: Date | null) => Promise<unknown>][] = [
    [
      'the room closed',
      'room_closed',
      'room_closed',
      (closedAt) => world.db.room.update({ ...room(), data: { closedAt } }),
    ],
    [
      'the company gone',
      'not_a_member',
      'not_a_member',
      (leftAt) => world.db.roomMember.updateMany({ ...member(), data: { leftAt } }),
    ],
    [
      'the agent off the roster',
      'not_a_member',
      'not_a_member',
      (removedAt) => world.db.roomAgent.updateMany({ ...place(), data: { removedAt } }),
    ],
    [
      'the company suspended',
      'suspended',
      'suspended',
      (suspendedAt) => world.db.company.update({ where: { id: world.host.id }, data: { suspendedAt } }),
    ],
    [
      'the agent paused',
      'paused',
      'unavailable',
      (pausedAt) => world.db.agent.update({ where: { id: world.scribe.id }, data: { pausedAt } }),
    ],
    ['the room paused', 'paused', 'unavailable', (pausedAt) => world.db.room.update({ ...room(), data: { pausedAt } })],
    [
      'its key refused',
      'key_rejected',
      'unavailable',
      (at) => world.db.modelKey.updateMany({ ...key, data: { rejectedVersion: at && 1 } }),
    ],
    [
      'its key revoked',
      'key_rejected',
      'unavailable',
      (revokedAt) => world.db.modelKey.updateMany({ ...key, data: { revokedAt } }),
    ],
    [
      'the hop limit lowered',
      'hop_limit',
      'hop_limit',
      (at) => world.db.room.update({ ...room(), data: { hopLimit: at ? 2 : 8 } }),
    ],
  ];
  test.each(gates)('%s', async (_, reason, shown, shut) => {
    const { messageId } = await world.post('@scribe are you there', { hop: 3 });
    const before = await allowance();
    await shut(new Date());
    const one = dispatcher();
    await one.once();
    await shut(null);
    await one.once();
    expect(one.started).toEqual([]);
    const wake = await wakeOf(messageId);
    expect(wake).toMatchObject({ state: 'suppressed', reason, deliveredAt: null });
    expect(await allowance()).toBe(before);
    const events = (await eventsOf(world, 'wake_suppressed')).filter((event) => event.subjectId === wake.id);
    expect(events.map((event) => event.data)).toEqual([
      { wake: wake.id, agent: world.scribe.id, message: messageId, reason: shown },
    ]);
  });
});

describe('a start', () => {
  test('that failed is due again within seconds and repeated, once paid', async () => {
    const [{ messageId }, before] = [await world.post('@scribe flaky'), await allowance()];
    let tries = 0;
    const one = dispatcher(() => {
      if (++tries < 3) throw new Error('Temporal is away');
    });
    expect(await one.once()).toEqual({ started: 0, failed: 1, full: false });
    const wake = await wakeOf(messageId);
    expect(wake).toMatchObject({ state: 'delivered', startedAt: null });
    const lease = wake.dueAt.getTime() - (wake.deliveredAt?.getTime() ?? 0);
    expect(lease).toBeGreaterThan(0);
    expect(lease).toBeLessThanOrEqual(10_000);
    // Not before it is due: another dispatcher may be starting it. An hour, so that no pause of this machine matters.
    await world.db.$executeRaw`UPDATE wakes SET due_at = due_at + interval '1 hour' WHERE id = ${wake.id}`;
    expect(await one.once()).toEqual({ started: 0, failed: 0, full: false });
    // A delivered wake is never suppressed: what shut since is for the claim to see.
    await world.db.agent.update({ where: { id: world.scribe.id }, data: { pausedAt: new Date() } });
    for (const _ of [1, 2]) {
      await letLeasesEnd();
      await one.once();
    }
    await world.db.agent.update({ where: { id: world.scribe.id }, data: { pausedAt: null } });
    expect({ tries, started: one.started, failed: one.failed }).toEqual({
      tries: 3,
      started: [idOf(messageId)],
      failed: [wake.id, wake.id],
    });
    expect(await wakeOf(messageId)).toMatchObject({ state: 'delivered', startedAt: expect.any(Date) });
    expect(await allowance()).toBe(before - 1);
  });

  test('whose dispatcher died before or after it is repeated by another; already started counts as done', async () => {
    const { messageId } = await world.post('@scribe whoever');
    expect(await deliverWakes(world.db, 50)).toMatchObject([{ messageId }]);
    await letLeasesEnd();
    const other = dispatcher((workflowId, { type }) => {
      throw new WorkflowExecutionAlreadyStartedError('already started', workflowId, String(type));
    });
    expect(await other.once()).toEqual({ started: 1, failed: 0, full: false });
    expect(other.failed).toEqual([]);
    expect(await wakeOf(messageId)).toMatchObject({ state: 'delivered', startedAt: expect.any(Date) });
  });

  test('that fails does not keep the others of its pass from theirs', async () => {
    const posted = [
      await world.post('@scribe first'),
      await world.post('@scribe second'),
      await world.post('@scribe third'),
    ];
    const bad = idOf(posted[1]?.messageId ?? '');
    const one = dispatcher((workflowId) => {
      if (workflowId === bad) throw new Error('no');
    });
    expect(await one.once()).toEqual({ started: 2, failed: 1, full: false });
    expect(one.started).not.toContain(bad);
  });

  test('that Temporal has forgotten is made again, and not paid for again', async () => {
    const { messageId } = await world.post('@scribe forgotten');
    const one = dispatcher();
    await one.once();
    const before = await allowance();
    await startAgain(world.db, (await wakeOf(messageId)).id);
    await one.once();
    expect(one.started).toEqual([idOf(messageId), idOf(messageId)]);
    expect(await allowance()).toBe(before);
  });
});

describe('who reads by number', () => {
  const viewer = () => ({ companyId: world.host.id, agentId: null, seesPrivate: true });
  const readAfter = (after: bigint) => listRoomEvents(world.db, viewer(), world.roomId, { after, limit: 200 });
  const last = async () => (await world.db.room.findUniqueOrThrow({ where: { id: world.roomId } })).lastSeq;

  test('never skips a late commit: the second writer is numbered only when the first has committed', async () => {
    const start = await last();
    let first = '';
    const writer = await holdTransaction(world.db, async (tx) => {
      const room = await lockRoomForWrite(tx, world.roomId, world.host.id);
      const draft = new RoomDraft(world.roomId);
      const message = {
        author: world.host.person,
        text: '@scribe n',
        mentions: [],
        hop: 0,
        runId: null,
        refersTo: null,
      };
      first = (await stageMessage(tx, draft, room, message)).messageId;
      await draft.append(tx);
    });
    const second = world.post('@scribe n + 1');
    await untilWaiting(world.db);
    const one = dispatcher();
    expect(await readAfter(start)).toEqual([]);
    expect(await one.once()).toMatchObject({ started: 0 });
    await writer.release();
    const both = [first, (await second).messageId];
    expect((await readAfter(start)).map((event) => [event.seq, (event.resource['data'] as { id: string }).id])).toEqual(
      both.map((messageId, index) => [start + BigInt(index + 1), messageId]),
    );
    await one.once();
    expect(one.started.sort()).toEqual(both.map((messageId) => idOf(messageId)).sort());
  });

  test('and reads on while twenty write, sees every number once and in order', async () => {
    const start = await last();
    const seen: bigint[] = [];
    let writing = true;
    const reading = (async () => {
      let after = start;
      for (let more = true; more;) {
        more = writing;
        for (const { seq } of await readAfter(after)) seen.push((after = seq));
      }
    })();
    await Promise.all(Array.from({ length: 20 }, (_, n) => world.post(`nobody is called ${n}`)));
    writing = false;
    await reading;
    expect(seen).toEqual(Array.from({ length: 20 }, (_, n) => start + BigInt(n + 1)));
  });
});

test('a listener whose connection was ended in silence is back by itself, and hints that got lost are made up for', async () => {
  const one = dispatcher();
  const loop = createLoop({
    runOnce: async () => (await one.once()).full,
    intervalMs: 3_600_000, // Only hints set it going.
    onError: (error) => {
      throw error;
    },
  });
  let lost = 0;
  const listener = listenTo(world.url, WAKES_CHANNEL, loop.trigger, () => (lost += 1));
  const backend = () => world.db.$queryRaw<{ pid: number }[]>`
    SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'durable-room-listener' AND query LIKE 'LISTEN%'`;
  const kill = async () => {
    const [{ pid }] = await until('the listener to listen', async () => {
      const rows = await backend();
      return rows.length === 1 && (rows as [{ pid: number }]);
    });
    await world.db.$queryRaw`SELECT pg_terminate_backend(${pid}::int)`;
    await until('the listener to be gone', async () => (await backend()).every((row) => row.pid !== pid));
  };
  try {
    loop.start();
    await until('the listener to listen', async () => (await backend()).length === 1);
    const before = await world.post('@scribe with a listener');
    await until('the hint', async () => one.started.includes(idOf(before.messageId)));
    await kill();
    const during = await world.post('@scribe without a listener');
    await until('the wake that nobody heard', async () => one.started.includes(idOf(during.messageId)));
    const after = await world.post('@scribe with a listener again');
    await until('the hint', async () => one.started.includes(idOf(after.messageId)));
    expect(lost).toBe(1);
  } finally {
    await listener.stop();
    await loop.stop();
  }
});
