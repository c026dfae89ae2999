// Wakes and runs whose workflow was ended, deleted, lost or cancelled: the reconciler gives each exactly one visible ending,
// and never ends a run that may still continue.

import { randomUUID } from 'node:crypto';
import { Client, Connection } from '@temporalio/client';
import { claimAsLost, claimMessage } from '../../prisma/store/runs/claims';
import { closeAsLost } from '../../prisma/store/runs/fence';
import { wakeWorkflowId } from '../../workflows/contract';
import { RECHECK_SIGNAL } from '../../workflows/messages';
import { dispatchOnce } from '../../worker/dispatcher';
import { reconcileOnce, type ReconcilePass } from '../../worker/reconciler';
import { expectLedgerEqualsRoom, waitForNothingHeld } from '../support/ledger';
import { closedRun, startTestWorker, until, type TestWorker } from '../support/runs';
import { answer, startScriptedModel, type ScriptedModel } from '../support/scripted-model-server';
import { createWorld, type World } from '../support/world';

/** No grace: a check is due at once, and a run counts as past its limit one second after the limit. */
const TIMES = {
  recheckSeconds: 0,
  unclaimedLimitSeconds: 3_600,
  pastLimitMs: 1_000,
  executionLimitSeconds: 3_600,
};

let model: ScriptedModel;
let world: World;
let worker: TestWorker;
/** The message whose workflow is deleted. The deletion takes long, so it starts before the tests. */
let deleted: string;
const opened: { close(): Promise<void> }[] = [];

beforeAll(async () => {
  model = await startScriptedModel();
  world = await createWorld({ modelUrl: model.url });
  worker = await startTestWorker(world, { dispatch: false, timeouts: { heartbeatMs: 5_000 } });
  deleted = await startUnclaimed('@scribe deleted and started again');
  const workflowExecution = { workflowId: wakeWorkflowId(world.scribe.id, deleted) };
  await worker.client.workflowService.deleteWorkflowExecution({ namespace: 'default', workflowExecution });
});
afterEach(() => model.reset());
afterAll(async () => {
  await worker.stop();
  await waitForNothingHeld(world.db);
  for (const each of opened) await each.close();
  await world.close();
  await model.stop();
});

const workflowOf = (messageId: string) => worker.client.workflow.getHandle(wakeWorkflowId(world.scribe.id, messageId));

/**
 * One pass of a reconciler for which only the wake and run of this message are due. By default the grace for orphans is an
 * hour, so that the pass does not also signal the execution of a run that it just closed.
 */
async function reconcile(
  messageId: string,
  { client = worker.client, orphanGraceSeconds = 3_600 }: { client?: Client; orphanGraceSeconds?: number } = {},
): Promise<ReconcilePass> {
  await world.db.$executeRaw`
    UPDATE wakes SET due_at = clock_timestamp() + CASE WHEN message_id = ${messageId} THEN '-1 second' ELSE '1 hour' END::interval`;
  await world.db.$executeRaw`
    UPDATE runs SET due_at = clock_timestamp() + CASE WHEN message_id = ${messageId} THEN '-1 second' ELSE '1 hour' END::interval`;
  return reconcileOnce({
    db: world.db,
    client,
    taskQueue: worker.taskQueue,
    timeLimitMs: 30_000,
    times: { ...TIMES, orphanGraceSeconds },
    onAction: () => undefined,
  });
}

/** A run whose model answers only after `release`. */
async function runInModelCall(text: string) {
  const held = answer.hold('late');
  model.script(held);
  const { messageId } = await world.post(text);
  await worker.dispatch();
  await model.waitForRequests(1);
  const run = await world.db.run.findFirstOrThrow({ where: { messageId } });
  return { messageId, run, release: held.release };
}

/** A wake whose workflow is started on a queue without a worker, so that it stays unclaimed until a worker polls the queue. */
async function startUnclaimed(text: string, taskQueue = `unused-${randomUUID()}`): Promise<string> {
  const { messageId } = await world.post(text);
  await dispatchOnce({ db: world.db, client: worker.client, taskQueue, onStartFailed: () => undefined });
  expect((await workflowOf(messageId).describe()).status.name).toBe('RUNNING');
  return messageId;
}

async function expectLost(messageId: string): Promise<void> {
  const run = await closedRun(world.db, messageId);
  expect(run.ending).toBe('lost');
  expect(await world.db.agentRunLock.count({ where: { messageId } })).toBe(1);
  await expectLedgerEqualsRoom(world.db, run.id);
}

test('a workflow terminated during its model call: the run is lost, and the answer is not posted', async () => {
  const { messageId, run } = await runInModelCall('@scribe a long question');
  expect(await reconcile(messageId)).toMatchObject({ checked: 1, acted: 0 });
  await workflowOf(messageId).terminate();
  expect(await reconcile(messageId)).toMatchObject({ checked: 1, acted: 1 });
  await expectLost(messageId);
  // Its attempt learns of it by its heartbeat.
  await until('the request to be given up', async () => model.requests[0]?.aborted);
  expect(await world.db.message.count({ where: { runId: run.id } })).toBe(0);
  await expectLost(messageId);
});

test('a workflow terminated before its claim: one reconciler of five takes the claim, and the wake is lost', async () => {
  const messageId = await startUnclaimed('@scribe before the claim');
  expect(await reconcile(messageId)).toMatchObject({ checked: 1, acted: 0 });
  await workflowOf(messageId).terminate();
  await Promise.all(Array.from({ length: 5 }, () => reconcile(messageId)));
  const claim = await world.db.agentRunLock.findFirstOrThrow({ where: { messageId } });
  // No execution can claim it later.
  expect(claim.temporalRunId).toBeNull();
  await expectLost(messageId);
});

test('a workflow open for too long without a claim: the wake is lost, and the workflow is terminated', async () => {
  const messageId = await startUnclaimed('@scribe without a worker');
  await world.db.$executeRaw`
    UPDATE wakes SET delivered_at = delivered_at - interval '2 hours' WHERE message_id = ${messageId}`;
  expect(await reconcile(messageId)).toMatchObject({ acted: 1 });
  expect((await workflowOf(messageId).describe()).status.name).toBe('TERMINATED');
  await expectLost(messageId);
});

test('a run open long past its limit is lost, and its workflow is terminated', async () => {
  const { messageId, run } = await runInModelCall('@scribe for ever');
  await world.db.$executeRaw`UPDATE runs SET claimed_at = claimed_at - interval '1 hour' WHERE id = ${run.id}`;
  expect(await reconcile(messageId)).toMatchObject({ checked: 1, acted: 1 });
  expect((await workflowOf(messageId).describe()).status.name).toBe('TERMINATED');
  await expectLost(messageId);
  await until('the request to be given up', async () => model.requests[0]?.aborted);
});

test('an execution that waits for a retry gets a recheck signal when its run was closed elsewhere, and ends', async () => {
  model.script(answer.error(429, 'rate_limit_exceeded', { 'retry-after': '19' }));
  const { messageId } = await world.post('@scribe busy');
  await worker.dispatch();
  const run = await until('the first request to have ended', () =>
    world.db.run.findFirst({ where: { messageId, requests: { some: { outcome: 'retry' } } } }),
  );
  expect(await closeAsLost(world.db, run.id)).toBe(true);
  const ended = workflowOf(messageId).result();
  // Temporal's listing is a moment late.
  await until('the stray to be found', async () => (await reconcile(messageId, { orphanGraceSeconds: 0 })).acted > 0);
  expect(await ended).toEqual({ result: 'ended', run: run.id, ending: 'lost' });
  expect(model.requests).toHaveLength(1);
  await expectLost(messageId);
});

test('an execution that gets a recheck signal while its run is open continues', async () => {
  const { messageId, release } = await runInModelCall('@scribe take your time');
  await workflowOf(messageId).signal(RECHECK_SIGNAL);
  await until('it to have looked', async () => {
    const { events } = await workflowOf(messageId).fetchHistory();
    return (events ?? []).filter((event) => event.activityTaskCompletedEventAttributes).length === 2;
  });
  release();
  const run = await closedRun(world.db, messageId);
  expect(run).toMatchObject({ ending: 'replied' });
  expect(run.requests).toHaveLength(1);
  await expectLedgerEqualsRoom(world.db, run.id);
});

test('if Temporal is unreachable or its namespace is missing, the pass fails and no run ends', async () => {
  const unclaimed = await startUnclaimed('@scribe wait for it');
  const { messageId, release } = await runInModelCall('@scribe answer slowly');
  const unreachable = Connection.lazy({ address: '127.0.0.1:1', interceptors: [] });
  opened.push(unreachable);
  const clients = [
    new Client({ connection: worker.client.connection, namespace: 'no-such-namespace' }),
    new Client({ connection: unreachable, namespace: 'default' }),
  ];
  for (const client of clients) {
    for (const message of [unclaimed, messageId]) {
      await expect(reconcile(message, { client })).rejects.toThrow();
    }
  }
  const wake = await world.db.wake.findFirst({ where: { messageId: unclaimed } });
  // The wake is not started a second time either.
  expect(wake).toMatchObject({ state: 'delivered', startedAt: expect.any(Date) });
  expect(await world.db.run.findFirst({ where: { messageId } })).toMatchObject({ state: 'open' });
  release();
  expect(await closedRun(world.db, messageId)).toMatchObject({ ending: 'replied' });
  await workflowOf(unclaimed).terminate();
  await reconcile(unclaimed);
  await expectLost(unclaimed);
});

test('a workflow cancelled before its claim: the run claims, and closes as cancelled', async () => {
  const taskQueue = `late-${randomUUID()}`;
  const messageId = await startUnclaimed('@scribe never mind', taskQueue);
  await workflowOf(messageId).cancel();
  const late = await startTestWorker(world, { taskQueue, dispatch: false });
  const run = await closedRun(world.db, messageId);
  expect(await workflowOf(messageId).result()).toEqual({ result: 'ended', run: run.id, ending: 'cancelled' });
  await late.stop();
  expect(run).toMatchObject({ ending: 'cancelled', cancelledBy: 'temporal', requests: [] });
  expect(model.requests).toHaveLength(0);
  await expectLedgerEqualsRoom(world.db, run.id);
});

test('a workflow cancelled during its model call: the request is aborted, and the worker is free for the next run', async () => {
  const { messageId } = await runInModelCall('@scribe stop that');
  await workflowOf(messageId).cancel();
  const run = await closedRun(world.db, messageId);
  expect(run).toMatchObject({ ending: 'cancelled', cancelledBy: 'temporal' });
  await until('the request to be given up', async () => model.requests[0]?.aborted);
  expect(await world.db.message.count({ where: { runId: run.id } })).toBe(0);
  await expectLedgerEqualsRoom(world.db, run.id);

  const next = await world.post('@scribe and now?');
  await worker.dispatch();
  expect(await closedRun(world.db, next.messageId)).toMatchObject({ ending: 'replied' });
});

test('an execution and a reconciler that race for one wake: one claims it, and the other does nothing', async () => {
  const messageIds: string[] = [];
  for (let index = 0; index < 20; index += 1) messageIds.push(await startUnclaimed(`@scribe race ${index}`));
  const before = await world.db.run.count();
  await Promise.all(
    messageIds.map(async (messageId, index) => {
      const workflowId = wakeWorkflowId(world.scribe.id, messageId);
      const wake = { agentId: world.scribe.id, messageId, workflowId };
      const execution = { workflowId, temporalRunId: randomUUID() };
      const limits = { timeLimitMs: 30_000 };
      const claim = () => claimMessage(world.db, execution, wake, limits);
      const end = () => claimAsLost(world.db, wake, limits);
      // The two take turns to start first.
      const race = index % 2 === 0 ? [claim(), end()] : [end(), claim()];
      const outcomes = await Promise.all(race);
      const [claimed, lost] = index % 2 === 0 ? outcomes : outcomes.toReversed();
      const run = await world.db.run.findFirstOrThrow({ where: { messageId } });
      if (lost === null) expect(claimed).toMatchObject({ kind: 'granted', runId: run.id });
      else expect([claimed, lost]).toEqual([{ kind: 'refused', why: 'already_claimed', runId: run.id }, run.id]);
      expect(run.state).toBe(lost === null ? 'open' : 'closed');
    }),
  );
  expect(await world.db.run.count()).toBe(before + 20);
  for (const messageId of messageIds) {
    await workflowOf(messageId).terminate();
    await reconcile(messageId);
    await expectLost(messageId);
  }
});

test('a workflow deleted before its claim is started again, and the wake is answered once', async () => {
  const messageId = deleted;
  const handle = workflowOf(messageId);
  await until('the workflow to be gone', () =>
    handle.describe().then(
      () => false,
      () => true,
    ),
  );
  expect(await reconcile(messageId)).toMatchObject({ acted: 1 });
  await worker.dispatch();
  const run = await closedRun(world.db, messageId);
  expect(run).toMatchObject({ ending: 'replied', fencedCount: 0 });
  expect(run.requests).toHaveLength(1);
  await expectLedgerEqualsRoom(world.db, run.id);
});
