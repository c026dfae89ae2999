// What an operator can do to a single activity: pause and unpause, reset, more attempts, a result by hand. Under both
// policies, and with an attempt that failed before it acted, or after it acted without an answer to Temporal.

import { ACTING, caseOpener, ONCE, STEPS, type OpenCase, type OperatorCase } from '../support/operator-cases';
import { operatorActions, type OperatorActions } from '../support/operator-actions';
import {
  startOperatorWorker,
  type ActivityName,
  type OperatorWorker,
  type HoldPosition,
  type HeldAttempt,
} from '../support/operator-worker';
import { waitForNothingHeld } from '../support/ledger';
import { until } from '../support/runs';
import { answer, startScriptedModel, type ScriptedModel } from '../support/scripted-model-server';
import { createWorld, type World } from '../support/world';
import { ON_CRASH, type OnCrash } from '../../workflows/contract';

let model: ScriptedModel;
let world: World;
let worker: OperatorWorker;
let hands: OperatorActions;
let openCase: OpenCase;

beforeAll(async () => {
  model = await startScriptedModel();
  world = await createWorld({ modelUrl: model.url });
  worker = await startOperatorWorker(world);
  hands = operatorActions(worker.client);
  openCase = caseOpener(world, model);
});
afterAll(async () => {
  await worker.stop();
  await waitForNothingHeld(world.db);
  await world.close();
  await model.stop();
});

interface Failing {
  readonly activity: (typeof ACTING)[number];
  readonly place: HoldPosition;
  readonly onCrash: OnCrash;
}

const PLACES: readonly HoldPosition[] = ['before', 'after'];
const FAILING: readonly Failing[] = ACTING.flatMap((activity) =>
  PLACES.flatMap((place) => ON_CRASH.map((onCrash) => ({ activity, place, onCrash }))),
);

/** Opens a run and holds its acting step, before it acts or after it acted without an answer to Temporal. */
async function holdAt({ activity, place, onCrash }: Failing) {
  const opened = await openCase({ onCrash });
  const stand = worker.holdAttempt(opened.room.agent.id, activity, place);
  await worker.dispatch();
  await stand.reached;
  return { opened, stand };
}

async function expectAllDoneOnce(opened: OperatorCase, attempts: { of: ActivityName; atLeast: number }): Promise<void> {
  const run = await opened.closed();
  expect(run).toMatchObject({ ending: 'replied', fencedCount: 0 });
  expect(run.steps.map((step) => [step.stepKey, step.state])).toEqual(STEPS.map((key) => [key, 'done']));
  expect(await hands.result(opened.target)).toEqual({ result: 'ended', run: run.id, ending: 'replied' });
  // Proves that the operator's command had an effect: the step had another attempt, which the room does not show.
  expect(worker.attempts(opened.room.agent.id, attempts.of)).toBeGreaterThanOrEqual(attempts.atLeast);
  expect(await opened.effects()).toEqual(ONCE);
  expect(opened.requests()).toHaveLength(1);
  await opened.expectConsistent();
}

interface Prepared {
  readonly opened: OperatorCase;
  readonly stand: HeldAttempt;
}

/** Opens all cases, holds each step and applies the command of the operator. All at once: most of the time is waiting. */
function prepareAll(
  cases: readonly Failing[],
  command: (prepared: Prepared, failing: Failing) => Promise<void>,
): (failing: Failing) => OperatorCase {
  const prepared = new Map<Failing, Prepared>();
  beforeAll(async () => {
    for (const failing of cases) {
      const opened = await openCase({ onCrash: failing.onCrash });
      const stand = worker.holdAttempt(opened.room.agent.id, failing.activity, failing.place);
      prepared.set(failing, { opened, stand });
    }
    await worker.dispatch();
    await Promise.all(
      [...prepared].map(async ([failing, each]) => {
        await each.stand.reached;
        await command(each, failing);
      }),
    );
  });
  return (failing) => (prepared.get(failing) as Prepared).opened;
}

describe('a step is paused, fails and is unpaused', () => {
  const caseOf = prepareAll(FAILING, async ({ opened, stand }, { activity }) => {
    await hands.pause(opened.target, activity);
    stand.fail();
    // `stop` allows one attempt, but a paused activity still waits for another.
    expect(await hands.idle(opened.target, activity)).toMatchObject({ paused: true });
    expect(worker.attempts(opened.room.agent.id, activity)).toBe(1);
    await hands.unpause(opened.target, activity);
  });
  test.each(FAILING)('$activity fails $place it acted, on_crash $onCrash: it acts once', async (failing) => {
    await expectAllDoneOnce(caseOf(failing), { of: failing.activity, atLeast: 2 });
  });
});

const ONE_ATTEMPT = FAILING.filter(({ onCrash }) => onCrash === 'stop');

describe('a step gets more attempts during its attempt, which fails', () => {
  const caseOf = prepareAll(ONE_ATTEMPT, async ({ opened, stand }, { activity }) => {
    await hands.allowAttempts(opened.target, activity, 5);
    stand.fail();
  });
  test.each(ONE_ATTEMPT)('$activity fails $place it acted: it acts once', async (failing) => {
    await expectAllDoneOnce(caseOf(failing), { of: failing.activity, atLeast: 2 });
  });
});

describe('a step is reset during its attempt, which fails', () => {
  const caseOf = prepareAll(FAILING, async ({ opened, stand }, { activity }) => {
    await hands.resetActivity(opened.target, activity);
    stand.fail();
  });
  test.each(FAILING)('$activity fails $place it acted, on_crash $onCrash: it acts at most once', async (failing) => {
    const opened = caseOf(failing);
    const { activity, place, onCrash } = failing;
    const run = await opened.closed();
    await hands.result(opened.target);
    const acted = run.steps.filter((step) => step.state === 'done').length;
    // The server decides whether a reset grants another attempt. No step acts twice, and earlier steps stay done.
    if (worker.attempts(opened.room.agent.id, activity) > 1) expect(acted).toBe(ACTING.length);
    else expect([onCrash, acted]).toEqual(['stop', ACTING.indexOf(activity) + (place === 'after' ? 1 : 0)]);
    expect(await opened.effects()).toEqual(
      Object.fromEntries(Object.keys(ONCE).map((name, index) => [name, index < acted ? 1 : 0])),
    );
    expect(opened.requests()).toHaveLength(1);
    await opened.expectConsistent();
  });
});

test('a step that is paused and unpaused several times during its attempt acts once', async () => {
  const { opened, stand } = await holdAt({ activity: 'postReply', place: 'after', onCrash: 'stop' });
  for (let turn = 0; turn < 3; turn += 1) {
    await hands.pause(opened.target, 'postReply');
    await hands.unpause(opened.target, 'postReply');
  }
  await hands.allowAttempts(opened.target, 'postReply', 3);
  await hands.pause(opened.target, 'postReply');
  stand.fail();
  await hands.idle(opened.target, 'postReply');
  await hands.resetActivity(opened.target, 'postReply');
  await hands.unpause(opened.target, 'postReply').catch(() => undefined);
  await expectAllDoneOnce(opened, { of: 'postReply', atLeast: 2 });
});

const OVERLOADED = answer.error(529, 'overloaded', { 'retry-after': '19' });

test('callModel is paused while it waits for a retry, then unpaused: it sends a second request, which is answered', async () => {
  const opened = await openCase({ answers: [OVERLOADED] });
  await worker.dispatch();
  await model.waitForRequests(1);
  await until('the first request to end', async () => {
    const requests = await world.db.modelRequest.findMany({ where: { run: { messageId: opened.messageId } } });
    return requests.some((request) => request.outcome === 'retry');
  });
  await hands.idle(opened.target, 'callModel');
  await hands.pause(opened.target, 'callModel');
  expect(await hands.idle(opened.target, 'callModel')).toMatchObject({ paused: true });
  await hands.unpause(opened.target, 'callModel');
  const run = await opened.closed();
  expect(run).toMatchObject({ ending: 'replied', fencedCount: 0 });
  expect(run.requests.map((request) => request.outcome)).toEqual(['retry', 'answered']);
  expect(opened.requests()).toHaveLength(2);
  expect(await opened.effects()).toEqual(ONCE);
  await opened.expectConsistent();
});

test('callModel is paused during its request: the request is aborted and counts, and unpausing sends another', async () => {
  const held = answer.hold('too late');
  const opened = await openCase({ answers: [held] });
  await worker.dispatch();
  await until('the request to arrive', async () => opened.requests().length === 1);
  await hands.pause(opened.target, 'callModel');
  // The heartbeat informs the activity of the pause.
  expect(await hands.idle(opened.target, 'callModel')).toMatchObject({ paused: true });
  expect(opened.requests()[0]?.aborted).toBe(true);
  await hands.unpause(opened.target, 'callModel');
  const run = await opened.closed();
  expect(run).toMatchObject({ ending: 'replied', fencedCount: 0 });
  expect(run.requests.map((request) => request.outcome)).toEqual(['aborted', 'answered']);
  expect(await opened.effects()).toEqual(ONCE);
  await opened.expectConsistent();
});

test('callModel is reset after each request: it never sends a fourth request', async () => {
  const opened = await openCase({ answers: Array.from({ length: 10 }, () => OVERLOADED) });
  await worker.dispatch();
  for (let sent = 1; sent < 3; sent += 1) {
    await until(`request ${sent} to end`, async () => {
      const ended = await world.db.modelRequest.count({
        where: { run: { messageId: opened.messageId }, outcome: 'retry' },
      });
      return ended === sent;
    });
    await hands.idle(opened.target, 'callModel');
    await hands.resetActivity(opened.target, 'callModel');
  }
  const run = await opened.closed();
  expect(run).toMatchObject({ ending: 'busy', fencedCount: 0 });
  expect(run.requests.map((request) => request.outcome)).toEqual(['retry', 'retry', 'retry']);
  expect(opened.requests()).toHaveLength(3);
  expect(await opened.effects()).toEqual({ replies: 0, memory: 0, responses: 0, sends: 0 });
  await opened.expectConsistent();
});

test('a step is completed by hand before it acts: no later step acts, and the late attempt finds a closed run', async () => {
  const { opened, stand } = await holdAt({ activity: 'postReply', place: 'before', onCrash: 'stop' });
  await hands.complete(opened.target, 'postReply', { state: 'done' });
  const run = await opened.closed();
  stand.resume();
  await stand.over;
  await hands.result(opened.target);
  // The ledger uses its own rows, not the operator's result.
  expect(run.steps.map((step) => [step.stepKey, step.state])).toEqual([
    ['reply', 'not_reached'],
    ['memory', 'superseded'],
    ['task_update:1', 'superseded'],
    ['task_send:1', 'superseded'],
  ]);
  expect(await opened.effects()).toEqual({ replies: 0, memory: 0, responses: 0, sends: 0 });
  await opened.expectConsistent();
});

test('a step is completed by hand after it acted: it is done once, and the run continues', async () => {
  const { opened, stand } = await holdAt({ activity: 'writeMemory', place: 'after', onCrash: 'stop' });
  await hands.complete(opened.target, 'writeMemory', { state: 'done' });
  await expectAllDoneOnce(opened, { of: 'writeMemory', atLeast: 1 });
  stand.resume();
  await stand.over;
  await opened.expectConsistent();
});
