// `workflow pause`, experimental and off by default in the server: a run that stands still is not gone, and goes on as it
// was. The API can only be had by a switch, so this has a server of its own.

import { caseOpener, NOTHING, ONCE, type OpenCase } from '../support/operator-cases';
import { operatorActions, type OperatorActions } from '../support/operator-actions';
import { startOwnTemporal, type OwnServer } from '../support/operator-servers';
import { startOperatorWorker, type OperatorWorker } from '../support/operator-worker';
import { waitForNothingHeld } from '../support/ledger';
import { until } from '../support/runs';
import { startScriptedModel, type ScriptedModel } from '../support/scripted-model-server';
import { createWorld, type World } from '../support/world';

/** As the server numbers it. */
const PAUSED = 8;

let model: ScriptedModel;
let world: World;
let temporal: OwnServer;
let worker: OperatorWorker;
let hands: OperatorActions;
let openCase: OpenCase;

beforeAll(async () => {
  model = await startScriptedModel();
  world = await createWorld({ modelUrl: model.url });
  temporal = await startOwnTemporal(['--dynamic-config-value=frontend.WorkflowPauseEnabled=true']);
  worker = await startOperatorWorker(world, { address: temporal.address });
  hands = operatorActions(worker.client);
  openCase = caseOpener(world, model);
});
afterAll(async () => {
  await worker.stop();
  await temporal.dispose();
  await waitForNothingHeld(world.db);
  await world.close();
  await model.stop();
});

test.each(['before', 'after'] as const)(
  'a run paused while its reply stands, %s it is posted: the reconciler leaves it alone, and unpaused it acts once',
  async (place) => {
    const it = await openCase();
    const stand = worker.holdAttempt(it.room.agent.id, 'postReply', place);
    await worker.dispatch();
    await stand.reached;
    await hands.pauseWorkflow(it.target);
    stand.resume();
    await stand.over;
    // Its step is done and known, and nobody is told to take the next.
    await until('the step to be known', async () => (await hands.findPending(it.target, 'postReply')) === null);
    expect(await worker.reconcile()).toMatchObject({ checked: 1, acted: 0 });
    const { raw } = await worker.client.workflow.getHandle(it.target.workflowId).describe();
    expect(raw.workflowExecutionInfo?.status).toBe(PAUSED);
    expect(await it.effects()).toEqual({ ...NOTHING, replies: 1 });
    expect((await it.claimed()).state).toBe('open');
    await hands.unpauseWorkflow(it.target);
    expect(await it.closed()).toMatchObject({ ending: 'replied', fencedCount: 0 });
    expect(await it.effects()).toEqual(ONCE);
    await it.expectConsistent();
    // The next case's pass of the reconciler meets nothing of this one.
    await worker.untilNoneOpen();
  },
);
