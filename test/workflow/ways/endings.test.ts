// Each way that a run can go, on a real Temporal: one test a way, over one worker. The other workflow tests look closer at one
// of them.

import { PRESETS } from '../../../prisma/store/rooms/roster';
import { ENDINGS, wakeWorkflowId } from '../../../workflows/contract';
import { failingIn } from '../../support/faults';
import { heldOf, setRights } from '../../support/held-actions';
import { resetExecution } from '../../support/histories-read';
import { expectLedgerEqualsRoom } from '../../support/ledger';
import { closedRun, startTestWorker, TEST_TIMEOUTS, until, type TestWorker } from '../../support/runs';
import { startScriptedModel, type ScriptedModel } from '../../support/scripted-model-server';
import { runWay, WAYS, type Way } from '../../support/ways';
import { createWorld, type World } from '../../support/world';

let model: ScriptedModel;
let world: World;
let worker: TestWorker;
/** Of the run that the test starts. */
const timeouts = { ...TEST_TIMEOUTS };
/** The activity whose transactions fail in the test that runs. */
let failing: string | undefined;
let failures = 0;

beforeAll(async () => {
  model = await startScriptedModel();
  world = await createWorld({ modelUrl: model.url });
  // What the scribe sends wakes no other agent, so that the model's script is the scribe's alone.
  await world.db.agent.update({ where: { id: world.scout.id }, data: { alwaysOn: false } });
  const unreachable = (): Error => {
    failures += 1;
    return Object.assign(new Error('gone'), { code: 'ECONNRESET' });
  };
  const deps = { db: failingIn(world.db, () => failing, unreachable), timeouts, logFailure: () => undefined };
  worker = await startTestWorker(world, { deps });
});
beforeEach(async () => {
  model.reset();
  failing = undefined;
  failures = 0;
  // A provider that refuses the key would suppress the wakes of the tests that follow.
  await world.db.modelKey.updateMany({ data: { rejectedVersion: null } });
});
afterAll(async () => {
  await worker.stop();
  await world.close();
  await model.stop();
});

/** Takes a way, and waits until its run is closed or parked. */
async function go(way: Way) {
  failing = way.failIn;
  Object.assign(timeouts, TEST_TIMEOUTS, way.timeouts);
  await world.db.room.update({ where: { id: world.roomId }, data: { onCrash: way.onCrash ?? 'stop' } });
  await setRights(world, way.rights ?? PRESETS.autonomous);
  const { messageId } = await runWay({ model, world, worker }, way);
  const run =
    way.ending === null
      ? await until('the run to be parked', () =>
          world.db.run.findFirst({ where: { messageId, parkedAt: { not: null } }, include: { steps: true } }),
        )
      : await closedRun(world.db, messageId, world.scribe.id);
  return { run, workflowId: wakeWorkflowId(world.scribe.id, messageId) };
}

const named = (name: string): Way => {
  const way = WAYS.find((each) => each.name === name);
  if (way === undefined) throw new Error(`no way is named ${name}`);
  return way;
};

/** The state of each step at the end of these ways. */
const STEPS: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  replied: { reply: 'done' },
  'replied-with-memory-and-task': { reply: 'done', memory: 'done', 'task_send:1': 'done' },
  silent: {},
  'not-allowed': { reply: 'refused', memory: 'superseded', 'task_send:1': 'superseded' },
  'stopped-at-the-reply': { reply: 'failed', memory: 'not_reached', 'task_send:1': 'not_reached' },
  partial: { reply: 'done', memory: 'failed', 'task_send:1': 'not_reached' },
  'held-task-approved': { reply: 'done', memory: 'done', 'task_send:1': 'done' },
  'held-task-declined': { reply: 'done', memory: 'done', 'task_send:1': 'declined' },
  'held-reply-declined': { reply: 'declined', memory: 'superseded', 'task_send:1': 'superseded' },
  'held-reply-expired': { reply: 'expired', memory: 'superseded', 'task_send:1': 'superseded' },
  'all-held-and-decided-one-by-one': { reply: 'done', memory: 'declined', 'task_send:1': 'done' },
};

test('every ending has a way', () => {
  expect(ENDINGS.filter((ending) => !WAYS.some((way) => way.ending === ending))).toEqual([]);
});

test.each(WAYS.filter((way) => way.ending !== null))('$name: the run ends $ending', async (way) => {
  const { run, workflowId } = await go(way);
  expect(run.ending).toBe(way.ending);
  const steps = STEPS[way.name];
  if (steps) expect(Object.fromEntries(run.steps.map((step) => [step.stepKey, step.state]))).toEqual(steps);
  await expectLedgerEqualsRoom(world.db, run.id);
  if (way.terminate) return;
  const handle = worker.client.workflow.getHandle(workflowId, run.temporalRunId as string);
  await expect(handle.result()).resolves.toMatchObject({ ending: way.ending });
});

test('parked: the run is open, waits for its decision, and has done the steps that it may do', async () => {
  const { run, workflowId } = await go(named('parked'));
  expect(run.state).toBe('open');
  expect([...(await heldOf(world, run.id))].map(([step, { state }]) => [step, state])).toEqual([
    ['task_send:1', 'held'],
  ]);
  const { searchAttributes, raw } = await worker.client.workflow.getHandle(workflowId).describe();
  expect(searchAttributes['RunState']).toEqual(['parked']);
  expect(raw.pendingActivities ?? []).toEqual([]);
});

test('a step that failed once is repeated where the room resumes runs, and done once', async () => {
  const { timeouts: _, ...way } = named('resumed-and-timed-out');
  const going = go({ ...way, ending: 'replied' });
  await until('the step to fail', async () => failures > 0);
  failing = undefined;
  const { run } = await going;
  expect(run.ending).toBe('replied');
  expect(await world.db.memoryEntry.count({ where: { runId: run.id } })).toBe(1);
  await expectLedgerEqualsRoom(world.db, run.id);
});

test('fenced: another execution of the same wake ends having done nothing', async () => {
  const { run, workflowId } = await go(named('replied'));
  const copy = await resetExecution(worker.client, workflowId);
  const result = await worker.client.workflow.getHandle(workflowId, copy).result();
  expect(['fenced', 'refused']).toContain((result as { result: string }).result);
  expect(await world.db.run.findUniqueOrThrow({ where: { id: run.id } })).toMatchObject({
    ending: 'replied',
    temporalRunId: run.temporalRunId,
  });
  expect(await world.db.message.count({ where: { runId: run.id } })).toBe(1);
  await expectLedgerEqualsRoom(world.db, run.id);
});
