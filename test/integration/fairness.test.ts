// Companies share the dispatcher: each has a cap of runs in flight, and they take turns. The tests check the order of
// starts, never times. Temporal is one function here, and the test ends each run.

import { type Client } from '@temporalio/client';
import { listenTo } from '../../prisma/channel-listener';
import { claimMessage } from '../../prisma/store/runs/claims';
import { WAKES_CHANNEL } from '../../prisma/store/rooms/room-draft';
import { closeRun } from '../../prisma/store/runs/fence';
import { dispatchOnce } from '../../worker/dispatcher';
import { createLoop } from '../../worker/loop';
import { until } from '../support/run-waits';
import { LIMITS, newExecution } from '../support/store-runs';
import { createWorld, type World } from '../support/world';

const CAP = 4;
let world: World;

beforeEach(async () => {
  world = await createWorld({ modelUrl: 'http://127.0.0.1:9/v1' });
});
afterEach(() => world.close());

interface Started {
  readonly agent: string;
  readonly message: string;
}

/** A dispatcher, with the workflows that it started, in order. */
function dispatcher(companyLimit = CAP) {
  const started: Started[] = [];
  const workflow = {
    start: async (_: string, options: { args: [Started] }) => {
      started.push(options.args[0]);
      return Promise.resolve({ firstExecutionRunId: 'run-id' });
    },
  };
  const client = { workflow } as unknown as Client;
  const deps = { db: world.db, client, taskQueue: 'queue', companyLimit, onStartFailed: () => undefined };
  return {
    started,
    once: () => dispatchOnce(deps),
    /** The companies of the started runs, in order: h(ost), g(uest). */
    order: () => started.map(({ agent }) => (agent === world.scribe.id ? 'h' : 'g')).join(''),
  };
}

/** Claims a started wake. */
async function claim({ agent, message }: Started) {
  const execution = newExecution(agent, message);
  const claimed = await claimMessage(world.db, execution, { agentId: agent, messageId: message }, LIMITS);
  if (claimed.kind === 'refused') throw new Error(`refused: ${claimed.why}`);
  return { execution, id: claimed.runId };
}

async function completeRun(started: Started): Promise<void> {
  const { execution, id } = await claim(started);
  // If a gate closed meanwhile, the claim has closed the run.
  await closeRun(world.db, execution, id, { kind: 'ended' });
}

const postMany = async (slug: string, count: number): Promise<void> => {
  for (let n = 0; n < count; n += 1) await world.post(`@${slug} number ${n}`);
};
const inFlight = async (companyId: string): Promise<number> =>
  (await world.db.wake.count({ where: { companyId, state: 'delivered' } })) +
  (await world.db.run.count({ where: { companyId, state: 'open' } }));

test('a flood has at most the cap of runs in flight; the other wakes wait and cost no allowance', async () => {
  const allowance = async () => (await world.db.room.findUniqueOrThrow({ where: { id: world.roomId } })).runAllowance;
  await postMany('scribe', 12);
  const before = await allowance();
  const one = dispatcher();
  await one.once();
  await one.once();
  expect(one.order()).toBe('hhhh');
  expect(await allowance()).toBe(before - CAP);
  expect(await world.db.wake.groupBy({ by: ['state'], _count: true, orderBy: { state: 'asc' } })).toMatchObject([
    { state: 'delivered', _count: CAP },
    { state: 'pending', _count: 12 - CAP },
  ]);
  // A claim frees no slot; only the end of a run does.
  const first = await claim(one.started[0] as Started);
  await one.once();
  expect(one.started).toHaveLength(CAP);
  await closeRun(world.db, first.execution, first.id, { kind: 'ended' });
  await one.once();
  expect(one.started).toHaveLength(CAP + 1);
});

test("another company's single message starts before the next run of a flood, however long the queue is", async () => {
  await postMany('scribe', 30);
  const one = dispatcher();
  await one.once();
  const { messageId } = await world.post('@scout one only');
  // The flood gets a free slot at the same time.
  await completeRun(one.started[0] as Started);
  await one.once();
  expect(one.order()).toBe('hhhhgh');
  expect(one.started[CAP]).toEqual({ agent: world.scout.id, message: messageId });
});

test('companies that wait at the same time take turns, whichever was first', async () => {
  await postMany('scribe', 6);
  await postMany('scout', 6);
  const one = dispatcher();
  await one.once();
  expect(one.order()).toBe('hghghghg');
});

test('a flood runs completely, in the order of its messages', async () => {
  await postMany('scribe', 15);
  const one = dispatcher();
  for (let ended = 0; ended < 15;) {
    await one.once();
    for (; ended < one.started.length; ended += 1) await completeRun(one.started[ended] as Started);
  }
  const messages = await world.db.message.findMany({ orderBy: { seq: 'asc' } });
  expect(one.started.map(({ message }) => message)).toEqual(messages.map(({ id }) => id));
});

test('concurrent dispatchers keep the cap together', async () => {
  await postMany('scribe', 20);
  const many = Array.from({ length: 4 }, () => dispatcher());
  const done: Started[] = [];
  while (done.length < 20) {
    await Promise.all(many.map((one) => one.once()));
    expect(await inFlight(world.host.id)).toBeLessThanOrEqual(CAP);
    const next = many.flatMap((one) => one.started).find((started) => !done.includes(started));
    if (!next) throw new Error('no run was started in a free slot');
    await completeRun(next);
    done.push(next);
  }
  expect(new Set(done.map(({ message }) => message)).size).toBe(20);
});

test('the end of a run notifies dispatchers of the free slot if a wake waits; so does a suppressed wake', async () => {
  await postMany('scribe', CAP + 2);
  const one = dispatcher();
  const loop = createLoop({
    runOnce: async () => (await one.once()).full,
    intervalMs: 3_600_000, // Only notifications start a pass.
    onError: (error) => {
      throw error;
    },
  });
  let listening = 0;
  const listener = listenTo(
    world.url,
    WAKES_CHANNEL,
    () => {
      listening += 1;
      loop.trigger();
    },
    () => undefined,
  );
  try {
    loop.start();
    await until('the first starts', async () => listening > 0 && one.started.length === CAP);
    await completeRun(one.started[0] as Started);
    await until('the start in the free slot', async () => one.started.length === CAP + 1);
    // The next wakes are suppressed. The wakes behind them do not wait for a poll either.
    await world.db.agent.update({ where: { id: world.scribe.id }, data: { pausedAt: new Date() } });
    const other = await world.addAgent({ slug: 'clerk' });
    const { messageId } = await world.post('@clerk behind it');
    await completeRun(one.started[1] as Started);
    await until('the start of the wake behind them', async () =>
      one.started.some(({ message }) => message === messageId),
    );
    expect(one.started.at(-1)).toEqual({ agent: other.id, message: messageId });
  } finally {
    await listener.stop();
    await loop.stop();
  }
});

test('a workflow that Temporal lost starts again although the company is at its cap, because it already has a slot', async () => {
  await postMany('scribe', CAP + 1);
  const one = dispatcher();
  await one.once();
  const lost = one.started[1] as Started;
  await world.db.$executeRaw`
    UPDATE wakes SET started_at = NULL, due_at = clock_timestamp() - interval '1 second' WHERE message_id = ${lost.message}`;
  await one.once();
  expect(one.started.slice(CAP)).toEqual([lost]);
});
