// The same operator commands on a worker whose acting activities have no fence: steps act twice, and after the end. This
// proves that the checks of the other operator tests detect it, and that the server performs the commands.

import { ONCE, caseOpener, type OpenCase } from '../support/operator-cases';
import { operatorActions, type EventId, type OperatorActions } from '../support/operator-actions';
import { withoutFence } from '../support/operator-unfenced';
import { startOperatorWorker, type OperatorWorker } from '../support/operator-worker';
import { waitForNothingHeld } from '../support/ledger';
import { until } from '../support/runs';
import { startScriptedModel, type ScriptedModel } from '../support/scripted-model-server';
import { createWorld, type World } from '../support/world';

let model: ScriptedModel;
let world: World;
let worker: OperatorWorker;
let hands: OperatorActions;
let openCase: OpenCase;

beforeAll(async () => {
  model = await startScriptedModel();
  world = await createWorld({ modelUrl: model.url });
  worker = await startOperatorWorker(world, { replace: withoutFence });
  hands = operatorActions(worker.client);
  openCase = caseOpener(world, model);
});
afterAll(async () => {
  await worker.stop();
  await waitForNothingHeld(world.db);
  await world.close();
  await model.stop();
});

async function holdReply(place: 'before' | 'after') {
  const opened = await openCase();
  const stand = worker.holdAttempt(opened.room.agent.id, 'postReply', place);
  await worker.dispatch();
  await stand.reached;
  return { opened, stand };
}

test('a run without an operator command acts once', async () => {
  const opened = await openCase();
  await worker.dispatch();
  await hands.result(opened.target);
  expect(await opened.effects()).toEqual(ONCE);
});

test('after a reset to the workflow task after the model call, every step acts twice', async () => {
  const opened = await openCase();
  await worker.dispatch();
  await hands.result(opened.target);
  const run = await opened.closed();
  const point = (await hands.resetPoints(run))[2] as EventId;
  const copy = await hands.reset(run, point);
  // The claim is unchanged, and the activity that closes the run still has its fence.
  expect(await hands.result({ ...run, temporalRunId: copy })).toMatchObject({ result: 'fenced' });
  expect(await opened.effects()).toEqual({ replies: 2, memory: 2, responses: 2, sends: 2 });
  await expect(opened.expectConsistent()).rejects.toThrow();
});

test('a step with one attempt that is paused, fails after it acted and is unpaused acts twice', async () => {
  const { opened, stand } = await holdReply('after');
  await hands.pause(opened.target, 'postReply');
  stand.fail();
  await hands.idle(opened.target, 'postReply');
  await hands.unpause(opened.target, 'postReply');
  await hands.result(opened.target);
  expect(await opened.effects()).toEqual({ ...ONCE, replies: 2 });
  await expect(opened.expectConsistent()).rejects.toThrow();
});

test('a step that gets a second attempt and fails after it acted acts twice', async () => {
  const { opened, stand } = await holdReply('after');
  await hands.allowAttempts(opened.target, 'postReply', 2);
  stand.fail();
  await hands.result(opened.target);
  expect(await opened.effects()).toEqual({ ...ONCE, replies: 2 });
  await expect(opened.expectConsistent()).rejects.toThrow();
});

test('the held attempt of a terminated execution acts after its run was closed as lost', async () => {
  const { opened, stand } = await holdReply('before');
  await hands.terminate(opened.target);
  await worker.reconcile();
  expect(await opened.closed()).toMatchObject({ ending: 'lost' });
  stand.resume();
  await until('the late attempt to act', async () => (await opened.effects()).replies === 1);
  await expect(opened.expectConsistent()).rejects.toThrow();
});
