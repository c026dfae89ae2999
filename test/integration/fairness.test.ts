// Companies share the dispatcher: a cap of runs in flight for each, and turns. Orders of starts are counted, never times.
// Temporal is one function here, and a run ends when the test says so.

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

/** A dispatcher, and what it started, in order. */
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
    /** Whose runs were started, in order: h(ost), g(uest). */
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

async function carryOut(started: Started): Promise<void> {
  const { execution, id } = await claim(started);
  // Whose gates shut meanwhile is closed by its claim.
  await closeRun(world.db, execution, id, { kind: 'ended' });
}

const postMany = async (slug: string, count: number): Promise<void> => {
  for (let n = 0; n < count; n += 1) await world.post(`@${slug} number ${n}`);
};
const inFlight = async (companyId: string): Promise<number> =>
  (await world.db.wake.count({ where: { companyId, state: 'delivered' } })) +
  (await world.db.run.count({ where: { companyId, state: 'open' } }));

test('a flood has so many runs in flight and no more: the rest waits, is not suppressed, and costs no allowance', async () => {
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
  // A claim frees nothing; only an ending does.
  const first = await claim(one.started[0] as Started);
  await one.once();
  expect(one.started).toHaveLength(CAP);
  await closeRun(world.db, first.execution, first.id, { kind: 'ended' });
  await one.once();
  expect(one.started).toHaveLength(CAP + 1);
});

test("another company's single message is started before any further run of a flood, however long its queue", async () => {
  await postMany('scribe', 30);
  const one = dispatcher();
  await one.once();
  const { messageId } = await world.post('@scout one only');
  // A place of the flood's becomes free at the same time.
  await carryOut(one.started[0] as Started);
  await one.once();
  expect(one.order()).toBe('hhhhgh');
  expect(one.started[CAP]).toEqual({ agent: world.scout.id, message: messageId });
});

test('companies that are waiting at the same time take turns, whoever was first', async () => {
  await postMany('scribe', 6);
  await postMany('scout', 6);
  const one = dispatcher();
  await one.once();
  expect(one.order()).toBe('hghghghg');
});

test('a flood is carried out in the order of its messages, all of it', async () => {
  await postMany('scribe', 15);
  const one = dispatcher();
  for (let ended = 0; ended < 15;) {
    await one.once();
    for (; ended < one.started.length; ended += 1) await carryOut(one.started[ended] as Started);
  }
  const messages = await world.db.message.findMany({ orderBy: { seq: 'asc' } });
  expect(one.started.map(({ message }) => message)).toEqual(messages.map(({ id }) => id));
});

test('dispatchers at work at the same time keep the cap between them', async () => {
  await postMany('scribe', 20);
  const many = Array.from({ length: 4 }, () => dispatcher());
  const done: Started[] = [];
  while (done.length < 20) {
    await Promise.all(many.map((one) => one.once()));
    expect(await inFlight(world.host.id)).toBeLessThanOrEqual(CAP);
    const next = many.flatMap((one) => one.started).find((started) => !done.includes(started));
    if (!next) throw new Error('nothing was started into a free place');
    await carryOut(next);
    done.push(next);
  }
  expect(new Set(done.map(({ message }) => message)).size).toBe(20);
});

test('the end of a run tells dispatchers of its place, where a wake waits for one; so does a wake that is suppressed', async () => {
  await postMany('scribe', CAP + 2);
  const one = dispatcher();
  const loop = createLoop({
    runOnce: async () => (await one.once()).full,
    intervalMs: 3_600_000, // Only hints set it going.
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
    await carryOut(one.started[0] as Started);
    await until('the start into the free place', async () => one.started.length === CAP + 1);
    // The next ones are suppressed: those behind them do not wait for a poll either.
    await world.db.agent.update({ where: { id: world.scribe.id }, data: { pausedAt: new Date() } });
    const other = await world.addAgent({ slug: 'clerk' });
    const { messageId } = await world.post('@clerk behind it');
    await carryOut(one.started[1] as Started);
    await until('the one behind', async () => one.started.some(({ message }) => message === messageId));
    expect(one.started.at(-1)).toEqual({ agent: other.id, message: messageId });
  } finally {
    await listener.stop();
    await loop.stop();
  }
});

test('what Temporal forgot is started again although the company is at its cap: it has its place already', async () => {
  await postMany('scribe', CAP + 1);
  const one = dispatcher();
  await one.once();
  const lost = one.started[1] as Started;
  await world.db.$executeRaw`
    UPDATE wakes SET started_at = NULL, due_at = clock_timestamp() - interval '1 second' WHERE message_id = ${lost.message}`;
  await one.once();
  expect(one.started.slice(CAP)).toEqual([lost]);
});
