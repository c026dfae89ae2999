// `workflow pause`, experimental and off by default in the server: a paused run is not lost, and continues when unpaused.
// A server option enables the API, so this test has its own server.

import { caseOpener, NOTHING, ONCE, type OpenCase } from '../support/operator-cases';
import { operatorActions, type OperatorActions } from '../support/operator-actions';
import { startOwnTemporal, type OwnServer } from '../support/operator-servers';
import { startOperatorWorker, type OperatorWorker } from '../support/operator-worker';
import { waitForNothingHeld } from '../support/ledger';
import { until } from '../support/runs';
import { startScriptedModel, type ScriptedModel } from '../support/scripted-model-server';
import { createWorld, type World } from '../support/world';

/** The server's number for the status. */
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
  'a run paused %s its reply is posted is not changed by the reconciler, and acts once after it is unpaused',
  async (place) => {
    const it = await openCase();
    const stand = worker.holdAttempt(it.room.agent.id, 'postReply', place);
    await worker.dispatch();
    await stand.reached;
    await hands.pauseWorkflow(it.target);
    stand.resume();
    await stand.over;
    // Temporal has the result of the step, and the paused workflow does not start the next one.
    await until('the result of the step', async () => (await hands.findPending(it.target, 'postReply')) === null);
    expect(await worker.reconcile()).toMatchObject({ checked: 1, acted: 0 });
    const { raw } = await worker.client.workflow.getHandle(it.target.workflowId).describe();
    expect(raw.workflowExecutionInfo?.status).toBe(PAUSED);
    expect(await it.effects()).toEqual({ ...NOTHING, replies: 1 });
    expect((await it.claimed()).state).toBe('open');
    await hands.unpauseWorkflow(it.target);
    expect(await it.closed()).toMatchObject({ ending: 'replied', fencedCount: 0 });
    expect(await it.effects()).toEqual(ONCE);
    await it.expectConsistent();
    // The reconciler pass of the next case must not find an execution of this case.
    await worker.untilNoneOpen();
  },
);
