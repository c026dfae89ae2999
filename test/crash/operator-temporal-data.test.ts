// Temporal's database is lost, or restored to an earlier point than Postgres.

import { randomBytes } from 'node:crypto';
import { Client, Connection } from '@temporalio/client';
import { caseOpener, countEffects, NOTHING, ONCE, type OpenCase, type OperatorCase } from '../support/operator-cases';
import { operatorActions, type OperatorActions } from '../support/operator-actions';
import { startOwnTemporal, type OwnServer } from '../support/operator-servers';
import { startOperatorWorker, type OperatorWorker } from '../support/operator-worker';
import { expectLedgerEqualsRoom, waitForNothingHeld } from '../support/ledger';
import { until } from '../support/runs';
import { startScriptedModel, type ScriptedModel } from '../support/scripted-model-server';
import { endWorkers, forkCrashWorker, workerEnv } from '../support/worker-processes';
import { createWorld, type World } from '../support/world';
import { dispatchOnce } from '../../worker/dispatcher';
import type { CrashPoint } from '../support/crash-points';

let model: ScriptedModel;
let world: World;
let temporal: OwnServer;
let openCase: OpenCase;
let taskQueue: string;
let worker: OperatorWorker | undefined;
let hands: OperatorActions;

beforeEach(async () => {
  model = await startScriptedModel();
  world = await createWorld({ modelUrl: model.url });
  temporal = await startOwnTemporal();
  openCase = caseOpener(world, model);
  taskQueue = `operator-${randomBytes(6).toString('hex')}`;
});
afterEach(async () => {
  await worker?.stop();
  worker = undefined;
  await endWorkers();
  await temporal.dispose();
  await waitForNothingHeld(world.db);
  await world.close();
  await model.stop();
});

async function startWorker(): Promise<OperatorWorker> {
  worker = await startOperatorWorker(world, { address: temporal.address, taskQueue });
  hands = operatorActions(worker.client);
  return worker;
}

async function stopWorker(): Promise<void> {
  await worker?.stop();
  worker = undefined;
}

/** Runs each case to its crash point, and `after` to its end. Then kills their worker. */
async function killAt(points: ReadonlyMap<OperatorCase, CrashPoint>, after?: OperatorCase): Promise<void> {
  const victim = forkCrashWorker(
    { ...workerEnv(world, taskQueue), TEMPORAL_ADDRESS: temporal.address, RUN_TIME_LIMIT_SECONDS: '600' },
    { points: [...points].map(([{ room }, point]) => `${point}@${room.agent.id}`), action: 'stop' },
  );
  await until('every run to reach its point', async () => victim.stops.length === points.size);
  await after?.closed();
  await victim.kill();
}

/** Starts the workflows of all waiting wakes without a worker. Wakes of a killed dispatcher are due after its lease. */
async function deliver(): Promise<void> {
  const connection = await Connection.connect({ address: temporal.address });
  const client = new Client({ connection, namespace: 'default' });
  const onStartFailed = (_: unknown, error: unknown): void => console.error(error);
  const waiting = { OR: [{ state: 'pending' }, { state: 'delivered', startedAt: null }] };
  await until('every wake to be started', async () => {
    await dispatchOnce({ db: world.db, client, taskQueue, onStartFailed });
    return (await world.db.wake.count({ where: waiting })) === 0;
  });
  await connection.close();
}

/** All rows of the ledger and of the room of a case, and its effects. */
async function snapshot({ messageId, room }: OperatorCase): Promise<unknown> {
  const { db } = world;
  const run = await db.run.findFirstOrThrow({
    where: { messageId },
    include: { steps: true, requests: { orderBy: { number: 'asc' } } },
  });
  const events = await db.roomEvent.findMany({ where: { roomId: room.id }, orderBy: { seq: 'asc' } });
  return { run, events, effects: await countEffects(db, run.id) };
}

async function expectReplied(it: OperatorCase, fencedCount = 0): Promise<void> {
  expect(await it.closed()).toMatchObject({ ending: 'replied', fencedCount });
  expect(await it.effects()).toEqual(ONCE);
  await expectLedgerEqualsRoom(world.db, (await it.closed()).id);
}

async function reconcileUntilClosed(it: OperatorCase): Promise<void> {
  await until('the reconciler to close the run', async () => {
    await worker?.reconcile();
    return world.db.run.findFirst({ where: { messageId: it.messageId, state: 'closed' } });
  });
}

test('after Temporal lost its database, unclaimed wakes start again, open runs end as lost, and closed runs stay', async () => {
  const done = await openCase();
  const first = await startWorker();
  await first.dispatch();
  await done.closed();
  await stopWorker();
  const asking = await openCase();
  const acted = await openCase();
  const claimed = await openCase();
  await killAt(
    new Map<OperatorCase, CrashPoint>([
      [asking, 'callModel:sent'],
      [acted, 'postReply:committed'],
      [claimed, 'claimMessage:committed'],
    ]),
  );
  const unclaimed = [await openCase(), await openCase(), await openCase()];
  await deliver();
  await temporal.stop();
  const pending = await openCase();
  const before = await snapshot(done);

  await temporal.deleteData();
  await temporal.start();
  const second = await startWorker();
  await expect(hands.result(done.target)).rejects.toThrow();
  // The reconciler closes three lost runs and makes three wakes due. The dispatcher starts these and the undelivered wake.
  expect(await second.reconcile()).toMatchObject({ checked: 6, acted: 6 });
  expect(await second.dispatch()).toMatchObject({ started: 4, failed: 0 });
  for (const it of [...unclaimed, pending]) {
    await expectReplied(it);
    expect(it.requests()).toHaveLength(1);
    await it.expectConsistent();
  }
  for (const it of [asking, acted, claimed]) {
    expect(await it.closed()).toMatchObject({ ending: 'lost', fencedCount: 0 });
    expect(await it.effects()).toEqual(it === acted ? { ...NOTHING, replies: 1 } : NOTHING);
    await it.expectConsistent();
  }
  expect(await snapshot(done)).toEqual(before);

  // Temporal has no record of the execution and starts another one, but the claim still exists.
  const input = { agent: done.room.agent.id, message: done.messageId };
  const again = await hands.startOver(taskQueue, done.target.workflowId, input);
  const { id } = await done.closed();
  expect(await hands.result({ ...done.target, temporalRunId: again })).toEqual({
    result: 'fenced',
    why: 'already_claimed',
    run: id,
  });
  await expectReplied(done, 1);
  await second.untilNoneOpen();
  expect(await second.reconcile()).toMatchObject({ checked: 0, acted: 0 });
});

test('after Temporal is restored to an earlier point, old executions continue and end, and no step acts twice', async () => {
  const done = await openCase();
  const asking = await openCase();
  const claimed = await openCase();
  const acted = await openCase({ onCrash: 'resume' });
  await killAt(
    new Map<OperatorCase, CrashPoint>([
      [asking, 'callModel:sent'],
      [claimed, 'claimMessage:committed'],
      [acted, 'writeMemory:committed'],
    ]),
    done,
  );
  const unclaimed = await openCase();
  await deliver();
  await temporal.stop();
  await temporal.save();
  await temporal.start();

  // Temporal will lose the following: all of these runs end, one run is open, and one wake is delivered and not claimed.
  const first = await startWorker();
  const old = [done, asking, claimed, acted, unclaimed];
  for (const it of old) await expectReplied(it);
  const forgotten = await done.another();
  const halfway = await openCase({ onCrash: 'resume' });
  const stand = first.holdAttempt(halfway.room.agent.id, 'writeMemory', 'before');
  await first.dispatch();
  await expectReplied(forgotten);
  await stand.reached;
  await stopWorker();
  const unclaimedLater = await openCase();
  await deliver();
  await temporal.stop();
  const before = await Promise.all([...old, forgotten].map(snapshot));
  const asked = model.requests.length;

  await temporal.restore();
  await temporal.start();
  const second = await startWorker();
  for (const it of old) {
    const { id } = await it.closed();
    // Their Temporal run ids are unchanged, so each receives the ending of its own run.
    expect(await hands.result(it.target)).toEqual({ result: 'ended', run: id, ending: 'replied' });
  }
  expect(await Promise.all([...old, forgotten].map(snapshot))).toEqual(before);
  expect(model.requests).toHaveLength(asked);

  await reconcileUntilClosed(halfway);
  expect(await halfway.closed()).toMatchObject({ ending: 'lost', fencedCount: 0 });
  expect(await halfway.effects()).toEqual({ ...NOTHING, replies: 1 });
  expect(await second.dispatch()).toMatchObject({ started: 1, failed: 0 });
  await expectReplied(unclaimedLater);
  for (const it of [...old, forgotten, halfway, unclaimedLater]) await it.expectConsistent();
  await second.untilNoneOpen();
  expect(await second.reconcile()).toMatchObject({ checked: 0, acted: 0 });
});
