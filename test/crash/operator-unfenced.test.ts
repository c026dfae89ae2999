// The same hands on a worker whose acting activities pass no fence: there they do act twice, and after the end. So the
// checks of the other operator tests are known to see it, and the server to do what they say it does.

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

async function standAtReply(place: 'before' | 'after') {
  const opened = await openCase();
  const stand = worker.holdAttempt(opened.room.agent.id, 'postReply', place);
  await worker.dispatch();
  await stand.reached;
  return { opened, stand };
}

test('left alone, a run acts once', async () => {
  const opened = await openCase();
  await worker.dispatch();
  await hands.result(opened.target);
  expect(await opened.effects()).toEqual(ONCE);
});

test('reset to the workflow task after its model call, every step acts twice', async () => {
  const opened = await openCase();
  await worker.dispatch();
  await hands.result(opened.target);
  const run = await opened.closed();
  const point = (await hands.resetPoints(run))[2] as EventId;
  const copy = await hands.reset(run, point);
  // The claim is not forged here: what closes the run is fenced still.
  expect(await hands.result({ ...run, temporalRunId: copy })).toMatchObject({ result: 'fenced' });
  expect(await opened.effects()).toEqual({ replies: 2, memory: 2, responses: 2, sends: 2 });
  await expect(opened.expectConsistent()).rejects.toThrow();
});

test('paused, failed after it acted, and unpaused: a step of one attempt acts twice', async () => {
  const { opened, stand } = await standAtReply('after');
  await hands.pause(opened.target, 'postReply');
  stand.fail();
  await hands.idle(opened.target, 'postReply');
  await hands.unpause(opened.target, 'postReply');
  await hands.result(opened.target);
  expect(await opened.effects()).toEqual({ ...ONCE, replies: 2 });
  await expect(opened.expectConsistent()).rejects.toThrow();
});

test('given more attempts, and failed after it acted: a step of one attempt acts twice', async () => {
  const { opened, stand } = await standAtReply('after');
  await hands.allowAttempts(opened.target, 'postReply', 2);
  stand.fail();
  await hands.result(opened.target);
  expect(await opened.effects()).toEqual({ ...ONCE, replies: 2 });
  await expect(opened.expectConsistent()).rejects.toThrow();
});

test('terminated, and its run ended as lost: the attempt that was under way acts all the same', async () => {
  const { opened, stand } = await standAtReply('before');
  await hands.terminate(opened.target);
  await worker.reconcile();
  expect(await opened.closed()).toMatchObject({ ending: 'lost' });
  stand.resume();
  await until('the late attempt to have acted', async () => (await opened.effects()).replies === 1);
  await expect(opened.expectConsistent()).rejects.toThrow();
});
