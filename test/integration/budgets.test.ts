// Budgets in tokens per UTC day: a delivery reserves tokens and the end of the run settles them, with every dispatcher and
// every ending.

import { connectDatabase } from '../../prisma/client';
import { renderContext } from '../../activities/context/render';
import { claimAsLost, claimMessage } from '../../prisma/store/runs/claims';
import { suspendCompany, resumeCompany } from '../../prisma/store/lifecycle/companies';
import { claimRequest, endRequest, type RequestResult } from '../../prisma/store/runs/model-requests';
import { closeAsLost, closeRun } from '../../prisma/store/runs/fence';
import { deliverWakes, startAgain } from '../../prisma/store/runs/wakes';
import type { CloseReason } from '../../workflows/policy/ending';
import { answeredWith, budgetViolations, countedToday } from '../support/budgets';
import {
  eventsOf,
  holdTransaction,
  LIMITS,
  newExecution,
  NO_FACTS,
  untilWaiting,
  type OpenRun,
} from '../support/store-runs';
import { createWorld, type World } from '../support/world';

const MODEL_URL = 'http://127.0.0.1:9/v1';
const PER_RUN = 100;
let world: World;

beforeEach(async () => {
  world = await createWorld({ modelUrl: MODEL_URL });
  await world.db.agent.updateMany({ data: { tokensPerRun: PER_RUN } });
});
afterEach(() => world.close());

const limitAgent = (tokensPerDay: number, id = world.scribe.id) =>
  world.db.agent.update({ where: { id }, data: { tokensPerDay } });
const limitCompany = (tokensPerDay: number, id = world.host.id) =>
  world.db.company.update({ where: { id }, data: { tokensPerDay } });
const allowance = async () => (await world.db.room.findUniqueOrThrow({ where: { id: world.roomId } })).runAllowance;
const states = async () =>
  Object.fromEntries(
    (await world.db.wake.groupBy({ by: ['state', 'reason'], _count: true })).map((each) => [
      each.reason ?? each.state,
      each._count,
    ]),
  );
const reservationOf = (messageId: string) => world.db.tokenReservation.findFirst({ where: { messageId } });

async function deliver(text = '@scribe please') {
  const { messageId } = await world.post(text);
  await deliverWakes(world.db, 50);
  return { agentId: world.scribe.id, messageId };
}

async function open(text?: string): Promise<OpenRun> {
  const wake = await deliver(text);
  const execution = newExecution(wake.agentId, wake.messageId);
  const claim = await claimMessage(world.db, execution, wake, LIMITS);
  if (claim.kind !== 'granted') throw new Error(`not granted: ${claim.kind}`);
  return { id: claim.runId, execution, ...wake };
}

/** Claims one request of a run and records its result, if one is given. */
async function ask(run: OpenRun, result?: RequestResult): Promise<void> {
  const claim = await claimRequest(world.db, run.execution, run.id, renderContext);
  if (claim.kind !== 'send') throw new Error(`nothing to send: ${claim.kind}`);
  if (result) await endRequest(world.db, run.execution, run.id, claim.number, result, claim.target);
}

const close = (run: OpenRun, reason: CloseReason = { kind: 'failed', code: 'internal' }) =>
  closeRun(world.db, run.execution, run.id, reason);

describe('a hundred concurrent deliveries over eight connections', () => {
  const all = async (text: string): Promise<void> => {
    await world.postMany(100, (n) => `${text} number ${n}`);
    for (;;) {
      const passes = await Promise.all(Array.from({ length: 8 }, () => deliverWakes(world.db, 10)));
      if (passes.every((pass) => pass.length === 0) && !('pending' in (await states()))) return;
    }
  };

  test('wakes of one agent are delivered up to its budget; the rest are suppressed visibly and cost no allowance', async () => {
    await limitAgent(37 * PER_RUN + 99);
    const before = await allowance();
    await all('@scribe');
    expect(await states()).toEqual({ delivered: 37, budget: 63 });
    expect(await allowance()).toBe(before - 37);
    expect((await countedToday(world.db)).get(world.scribe.id)).toBe(37 * PER_RUN);
    const shown = await eventsOf(world, 'wake_suppressed');
    expect(shown).toHaveLength(63);
    expect(new Set(shown.map((event) => (event.data as { reason: string }).reason))).toEqual(new Set(['unavailable']));
    expect(await budgetViolations(world.db)).toEqual([]);
  });

  test('wakes of two agents stay within the budget of their company', async () => {
    const second = await world.addAgent({ slug: 'second' });
    await world.db.agent.update({ where: { id: second.id }, data: { tokensPerRun: 70 } });
    await limitCompany(5_000);
    await limitAgent(2_000, second.id);
    await all('@scribe @second');
    const counted = await countedToday(world.db);
    expect(counted.get(world.host.id)).toBeLessThanOrEqual(5_000);
    // No wake was suppressed that the budget could hold: the smallest reservation is 70.
    expect(counted.get(world.host.id)).toBeGreaterThan(5_000 - 70);
    expect(counted.get(second.id)).toBeLessThanOrEqual(2_000);
    expect((counted.get(world.scribe.id) ?? 0) + (counted.get(second.id) ?? 0)).toBe(counted.get(world.host.id));
    expect(await budgetViolations(world.db)).toEqual([]);
  });
});

test('an agent without a budget reserves nothing, and is not stopped by the exhausted budget of another agent', async () => {
  await limitAgent(0);
  await world.post('@scribe @scout both of you');
  expect((await deliverWakes(world.db, 50)).map((wake) => wake.agentId)).toEqual([world.scout.id]);
  expect(await world.db.tokenReservation.count()).toBe(0);
  expect(await states()).toEqual({ delivered: 1, budget: 1 });
});

test('a wake that is over budget costs no allowance; the next wake gets that allowance', async () => {
  await world.db.room.update({ where: { id: world.roomId }, data: { runAllowance: 1 } });
  await limitAgent(PER_RUN);
  await world.post('@scribe one');
  await world.post('@scribe two');
  // In the same company, because companies take turns regardless of age.
  await world.addAgent({ slug: 'clerk' });
  await world.post('@clerk three');
  await world.db.room.update({ where: { id: world.roomId }, data: { runAllowance: 2 } });
  expect(await deliverWakes(world.db, 50)).toHaveLength(2);
  // The second wake is over budget, so its share of the allowance remains for the third.
  expect(await states()).toEqual({ delivered: 2, budget: 1 });
  expect(await allowance()).toBe(0);
  const later = await world.post('@clerk four');
  expect(later.wakes).toMatchObject([{ reason: 'allowance' }]);
});

test('a dispatcher waits for the reservations of another dispatcher in the same company before it counts', async () => {
  await limitAgent(PER_RUN);
  await world.post('@scribe one');
  const other = await connectDatabase(world.url, {
    poolSize: 1,
    lockTimeoutMs: 10_000,
    statementTimeoutMs: 10_000,
    transactionTimeoutMs: 10_000,
    applicationName: 'durable-room-test',
  });
  try {
    // The first dispatcher has reserved and waits for the room, which another transaction has locked.
    const writer = await holdTransaction(
      world.db,
      (tx) => tx.$queryRaw`SELECT 1 AS locked FROM rooms WHERE id = ${world.roomId} FOR NO KEY UPDATE`,
    );
    const first = deliverWakes(world.db, 50);
    await untilWaiting(world.db);
    await world.db.$executeRaw`
      INSERT INTO wakes (id, agent_id, message_id, room_id, company_id, hop)
      VALUES ('wake_by_hand', ${world.scribe.id}, 'msg_by_hand', ${world.roomId}, ${world.host.id}, 0)`;
    const second = deliverWakes(other, 50);
    await untilWaiting(world.db, 2);
    await writer.release();
    expect([(await first).length, (await second).length]).toEqual([1, 0]);
    expect(await states()).toEqual({ delivered: 1, budget: 1 });
  } finally {
    await other.close();
  }
});

describe('a run settles for', () => {
  beforeEach(() => limitAgent(10 * PER_RUN));

  const cases: [string, (RequestResult | undefined)[], number][] = [
    ['nothing, without a request', [], 0],
    ['the tokens that it used', [answeredWith(30, 12)], 42],
    ['the tokens that it used, even beyond its reservation', [answeredWith(150, 50)], 200],
    ['nothing, after an error answer', [{ ...NO_FACTS, outcome: 'retry', code: 'overloaded', httpStatus: 529 }], 0],
    ['nothing, after a request that was not sent', [{ ...NO_FACTS, outcome: 'refused', code: 'unknown_host' }], 0],
    ['its whole reservation, after a request without an answer', [undefined], PER_RUN],
    ['its whole reservation, after an earlier request without an answer', [undefined, answeredWith(30, 12)], PER_RUN],
    ['the tokens that it used, if they exceed its reservation', [undefined, answeredWith(150, 12)], 162],
    ['its whole reservation, after an aborted request', [{ ...NO_FACTS, outcome: 'aborted' }], PER_RUN],
    ['its whole reservation, after a timeout', [{ ...NO_FACTS, outcome: 'retry', code: 'timeout' }], PER_RUN],
    ['its whole reservation, after an answer without token counts', [answeredWith(null, null)], PER_RUN],
    ['its whole reservation, after an answer with one of two token counts', [answeredWith(30, null)], PER_RUN],
  ];
  test.each(cases)('%s', async (_, requests, settled) => {
    const run = await open();
    expect(await reservationOf(run.messageId)).toMatchObject({ reserved: BigInt(PER_RUN), settled: null });
    for (const result of requests) await ask(run, result);
    await close(run);
    expect(await reservationOf(run.messageId)).toMatchObject({ settled: BigInt(settled), settledAt: expect.any(Date) });
    expect((await countedToday(world.db)).get(world.scribe.id) ?? 0).toBe(settled);
  });

  const endings: [string, (run: OpenRun) => Promise<unknown>][] = [
    ['failed', (run) => close(run)],
    ['timed_out', (run) => close(run, { kind: 'timed_out' })],
    ['cancelled', (run) => close(run, { kind: 'cancelled' })],
    ['lost', (run) => closeAsLost(world.db, run.id)],
    ['cancelled', () => world.db.transaction((tx) => suspendCompany(tx, world.host.id))],
  ];
  test.each(endings)('the same amount if it ends as %s, and only once', async (ending, end) => {
    const run = await open();
    await ask(run, { ...NO_FACTS, outcome: 'retry', code: 'overloaded', httpStatus: 529 });
    await ask(run);
    await end(run);
    expect(await world.db.run.findUniqueOrThrow({ where: { id: run.id } })).toMatchObject({ ending });
    const settled = await reservationOf(run.messageId);
    expect(settled).toMatchObject({ settled: BigInt(PER_RUN) });
    // A second close changes nothing.
    await close(run);
    await closeAsLost(world.db, run.id);
    expect(await reservationOf(run.messageId)).toEqual(settled);
  });

  test('nothing, if its claim is refused', async () => {
    const wake = await deliver();
    await world.db.transaction((tx) => suspendCompany(tx, world.host.id));
    const execution = newExecution(wake.agentId, wake.messageId);
    expect(await claimMessage(world.db, execution, wake, LIMITS)).toMatchObject({
      kind: 'closed',
      ending: 'cancelled',
    });
    await world.db.transaction((tx) => resumeCompany(tx, world.host.id));
    expect(await reservationOf(wake.messageId)).toMatchObject({ settled: 0n });
  });

  test('nothing, if no execution claims its wake', async () => {
    const wake = await deliver();
    const { workflowId } = newExecution(wake.agentId, wake.messageId);
    expect(await claimAsLost(world.db, { ...wake, workflowId }, LIMITS)).not.toBeNull();
    expect(await reservationOf(wake.messageId)).toMatchObject({ settled: 0n });
  });
});

test('a wake that was delivered before the budget was set does not count, and its run settles nothing', async () => {
  const run = await open();
  await ask(run, answeredWith(1_000, 0));
  await limitAgent(PER_RUN);
  const next = await deliver('@scribe from now on');
  expect(await world.db.wake.findFirst({ where: { messageId: next.messageId } })).toMatchObject({ state: 'delivered' });
  await close(run);
  expect(await reservationOf(run.messageId)).toBeNull();
  expect((await countedToday(world.db)).get(world.scribe.id)).toBe(PER_RUN);
});

test('a post checks used tokens at once; reserved tokens are checked at delivery, since a run may settle for less', async () => {
  await limitAgent(PER_RUN);
  const run = await open();
  const waiting = await world.post('@scribe when there is room');
  expect(waiting.wakes).toMatchObject([{ status: 'pending', reason: null }]);
  await limitAgent(2 * PER_RUN);
  expect(await deliverWakes(world.db, 50)).toMatchObject([{ messageId: waiting.messageId }]);

  await ask(run, answeredWith(PER_RUN + 1, 0));
  await close(run);
  const late = await world.post('@scribe one more');
  expect(late.wakes).toMatchObject([{ status: 'suppressed', reason: 'budget' }]);
});

test('a repeated start reserves nothing again', async () => {
  await limitAgent(PER_RUN);
  const wake = await deliver();
  const { id } = await world.db.wake.findFirstOrThrow({ where: { messageId: wake.messageId } });
  await startAgain(world.db, id);
  expect(await deliverWakes(world.db, 50)).toMatchObject([{ id }]);
  expect((await countedToday(world.db)).get(world.scribe.id)).toBe(PER_RUN);
});

test('unused reserved tokens can be reserved again; a suppressed wake remains suppressed', async () => {
  await limitAgent(PER_RUN + 50);
  const run = await open();
  const turnedAway = await deliver('@scribe too early');
  await ask(run, answeredWith(30, 20));
  await close(run);
  const next = await deliver('@scribe again');
  const reasons = await world.db.wake.findMany({
    where: { messageId: { in: [turnedAway.messageId, next.messageId] } },
    orderBy: { id: 'asc' },
  });
  expect(reasons).toMatchObject([{ reason: 'budget' }, { state: 'delivered' }]);
});

test('a run that crosses midnight settles on the day of its reservation, not on the current day', async () => {
  await limitAgent(PER_RUN);
  const run = await open();
  // The clock of Postgres cannot be moved, so the reservation is moved to yesterday.
  await world.db.$executeRaw`UPDATE token_reservations SET day = day - 1`;
  const yesterday = (await reservationOf(run.messageId))?.day;
  expect((await countedToday(world.db)).size).toBe(0);
  // The new day has the whole budget, although yesterday's run is still open.
  const next = await deliver('@scribe good morning');
  expect(await reservationOf(next.messageId)).toMatchObject({ reserved: BigInt(PER_RUN) });
  await ask(run, answeredWith(60, 0));
  await close(run);
  expect(await reservationOf(run.messageId)).toMatchObject({ settled: 60n, day: yesterday });
  expect((await countedToday(world.db)).get(world.scribe.id)).toBe(PER_RUN);
});

test.each(['Etc/GMT-14', 'Etc/GMT+12'])(
  'a budget day is a UTC day in a session with the time zone %s',
  async (zone) => {
    await limitAgent(PER_RUN);
    const elsewhere = await connectDatabase(world.url, {
      poolSize: 1,
      lockTimeoutMs: 10_000,
      statementTimeoutMs: 10_000,
      transactionTimeoutMs: 10_000,
      applicationName: 'durable-room-test',
    });
    try {
      // Sets the time zone of the pool's only connection.
      await elsewhere.$queryRaw`SELECT set_config('TimeZone', ${zone}, false)`;
      const { messageId } = await world.post('@scribe what day is it');
      await deliverWakes(elsewhere, 50);
      const [row] = await world.db.$queryRaw<{ today: boolean }[]>`
      SELECT day IN ((clock_timestamp() AT TIME ZONE 'UTC')::date, (clock_timestamp() AT TIME ZONE 'UTC')::date - 1)
             AND day = (w.delivered_at AT TIME ZONE 'UTC')::date AS today
      FROM token_reservations t JOIN wakes w USING (agent_id, message_id) WHERE message_id = ${messageId}`;
      expect(row).toEqual({ today: true });
    } finally {
      await elsewhere.close();
    }
  },
);

test('the check finds a violation', async () => {
  await limitAgent(PER_RUN);
  const run = await open();
  expect(await budgetViolations(world.db)).toEqual([]);
  await world.db.$executeRaw`UPDATE token_reservations SET reserved = 101`;
  expect(await budgetViolations(world.db)).toEqual([expect.stringContaining('counts 101 of 100')]);
  await world.db.$executeRaw`UPDATE token_reservations SET reserved = 100`;
  await close(run);
  await world.db.$executeRaw`UPDATE token_reservations SET settled = 7`;
  expect(await budgetViolations(world.db)).toEqual([expect.stringContaining('used 0 and has settled 7')]);
  await world.db.$executeRaw`UPDATE token_reservations SET settled = NULL, settled_at = NULL`;
  expect(await budgetViolations(world.db)).toEqual([expect.stringContaining('has settled null')]);
  await world.db.tokenReservation.deleteMany();
  expect(await budgetViolations(world.db)).toEqual([expect.stringContaining('without a reservation')]);
});
