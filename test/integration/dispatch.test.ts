// From a wake's row to a start in Temporal: any number of dispatchers share the wakes, each wake is paid once, and a start
// is repeated until it is acknowledged. Temporal is one function here; test/workflow uses the real one.

import { WorkflowExecutionAlreadyStartedError, type Client } from '@temporalio/client';
import { listenTo } from '../../prisma/channel-listener';
import { WAKES_CHANNEL } from '../../prisma/store/rooms/room-draft';
import { deliverWakes, startAgain } from '../../prisma/store/runs/wakes';
import { claimMessage } from '../../prisma/store/runs/claims';
import { createAcknowledger, dispatchOnce, type DispatcherDeps } from '../../worker/dispatcher';
import { createLoop } from '../../worker/loop';
import { wakeWorkflowId } from '../../workflows/contract';
import { until } from '../support/run-waits';
import { eventsOf, holdTransaction, LIMITS, newExecution } from '../support/store-runs';
import { createWorld, type World } from '../support/world';

const MODEL_URL = 'http://127.0.0.1:9/v1';
let world: World;

beforeAll(async () => {
  world = await createWorld({ modelUrl: MODEL_URL });
});
afterAll(() => world.close());
afterEach(async () => {
  // Acknowledges the starts that are still due, so that the next test does not start them.
  await world.db.$executeRaw`UPDATE wakes SET started_at = now() WHERE state = 'delivered' AND started_at IS NULL`;
});

type Start = (workflowId: string, options: Record<string, unknown>) => void;

/** A dispatcher whose Temporal is the function `start`, with the workflow ids that it started. */
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
/** Makes all leases expire now. */
const expireLeases = () =>
  world.db
    .$executeRaw`UPDATE wakes SET due_at = now() - interval '1 second' WHERE state = 'delivered' AND started_at IS NULL`;

test('a wake is delivered and paid for before its workflow is started, with an id that Temporal accepts once', async () => {
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

test('a worker with an acknowledger records starts in batches, and only of wakes that are not claimed', async () => {
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
  await until('the start to be recorded', async () => (await wakeOf(waiting)).startedAt !== null);
  expect(await wakeOf(claimed)).toMatchObject({ state: 'claimed', startedAt, dueAt });

  const { messageId } = await world.post('@scribe as the worker stops');
  await one.once({ acknowledged: acknowledger.take });
  await acknowledger.flush();
  expect((await wakeOf(messageId)).startedAt).toEqual(expect.any(Date));
});

test('one pass delivers wakes of a room with allowance and suppresses wakes of a room without', async () => {
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
  test('share a hundred wakes and start each once', async () => {
    const posted = await world.postMany(100, (n) => `@scribe number ${n}`);
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

  test('spend an allowance exactly and suppress the remaining wakes visibly', async () => {
    const poor = await createWorld({ modelUrl: MODEL_URL, runAllowance: 60 });
    try {
      // More wakes than one pass takes, so that both dispatchers spend.
      await poor.postMany(80, (n) => `@scribe number ${n}`);
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
      // The allowance is spent, so the next wake never becomes pending.
      expect((await poor.post('@scribe one more')).wakes).toMatchObject([
        { status: 'suppressed', reason: 'allowance' },
      ]);
    } finally {
      await poor.close();
    }
  });

  test('do not wait for each other: one skips a wake that the other has locked', async () => {
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

describe('a gate that closes before delivery suppresses the wake permanently and visibly, without payment', () => {
  const room = () => ({ where: { id: world.roomId } });
  const key = { where: { name: 'key of scribe' } };
  const member = () => ({ where: { roomId: world.roomId, companyId: world.host.id } });
  const rosterRow = () => ({ where: { roomId: world.roomId, agentId: world.scribe.id } });
  const gates: [string, string, string, (at: Date | null) => Promise<unknown>][] = [
    [
      'the room closed',
      'room_closed',
      'room_closed',
      (closedAt) => world.db.room.update({ ...room(), data: { closedAt } }),
    ],
    [
      'the company left the room',
      'not_a_member',
      'not_a_member',
      (leftAt) => world.db.roomMember.updateMany({ ...member(), data: { leftAt } }),
    ],
    [
      'the agent removed from the roster',
      'not_a_member',
      'not_a_member',
      (removedAt) => world.db.roomAgent.updateMany({ ...rosterRow(), data: { removedAt } }),
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
  test.each(gates)('%s', async (_, reason, shown, change) => {
    const { messageId } = await world.post('@scribe are you there', { hop: 3 });
    const before = await allowance();
    await change(new Date());
    const one = dispatcher();
    await one.once();
    await change(null);
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
  test('that failed is due again within seconds and is repeated, but paid once', async () => {
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
    // Not before it is due, because another dispatcher may be starting it. One hour exceeds any pause of the machine.
    await world.db.$executeRaw`UPDATE wakes SET due_at = due_at + interval '1 hour' WHERE id = ${wake.id}`;
    expect(await one.once()).toEqual({ started: 0, failed: 0, full: false });
    // A delivered wake is never suppressed. The claim checks gates that closed later.
    await world.db.agent.update({ where: { id: world.scribe.id }, data: { pausedAt: new Date() } });
    for (const _ of [1, 2]) {
      await expireLeases();
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

  test('whose dispatcher died before or after it is repeated by another; an already started workflow counts as started', async () => {
    const { messageId } = await world.post('@scribe once more');
    expect(await deliverWakes(world.db, 50)).toMatchObject([{ messageId }]);
    await expireLeases();
    const other = dispatcher((workflowId, { type }) => {
      throw new WorkflowExecutionAlreadyStartedError('already started', workflowId, String(type));
    });
    expect(await other.once()).toEqual({ started: 1, failed: 0, full: false });
    expect(other.failed).toEqual([]);
    expect(await wakeOf(messageId)).toMatchObject({ state: 'delivered', startedAt: expect.any(Date) });
  });

  test('that fails does not stop the other starts of its pass', async () => {
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

  test('of a workflow that Temporal lost is repeated, but not paid again', async () => {
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

test('a listener reconnects after its connection is ended, and catches up on lost notifications', async () => {
  const one = dispatcher();
  const loop = createLoop({
    runOnce: async () => (await one.once()).full,
    intervalMs: 3_600_000, // Only notifications start a pass.
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
    await until('the start of the wake without a notification', async () =>
      one.started.includes(idOf(during.messageId)),
    );
    const after = await world.post('@scribe with a listener again');
    await until('the hint', async () => one.started.includes(idOf(after.messageId)));
    expect(lost).toBe(1);
  } finally {
    await listener.stop();
    await loop.stop();
  }
});
