// Parked runs cost the reconciler almost nothing, and still get their ending if their workflow is terminated, deleted or
// copied, or their row is lost.

import { createParkedSweep } from '../../worker/parked-sweep';
import { reconcileOnce } from '../../worker/reconciler';
import { wakeWorkflowId } from '../../workflows/contract';
import { holdStates } from '../support/held-actions';
import { expectLedgerEqualsRoom } from '../support/ledger';
import { openParkedWorld, type ParkedWorld } from '../support/parked';
import { until } from '../support/run-waits';
import type { World } from '../support/world';

let ground: ParkedWorld;
let world: World;

beforeAll(async () => {
  ground = await openParkedWorld();
  ({ world } = ground);
});
afterAll(() => ground.close());

const HOLD_SEND = { task_send: 'hold' } as const;
const sweep = () => createParkedSweep(ground.reconciler()).runOnce();

test('a terminated parked workflow is found among the recently closed executions: its run is lost', async () => {
  const run = await ground.parkedRun(HOLD_SEND);
  const handle = ground.workflowOf(run.messageId);
  await ground.untilReportedParked(run.messageId);
  await handle.terminate();
  await until('the run to be lost', async () => {
    await sweep();
    return (await world.db.run.findUniqueOrThrow({ where: { id: run.id } })).ending === 'lost';
  });
  expect(await holdStates(world, run.id)).toEqual({ 'task_send:1': 'superseded' });
  expect(await ground.approve(run, 'task_send:1')).toMatchObject({ status: 409, body: { state: 'superseded' } });
  await expectLedgerEqualsRoom(world.db, run.id);
});

test('a deleted parked workflow is found within the hour: its run is lost', async () => {
  const run = await ground.parkedRun(HOLD_SEND);
  const { temporalRunId } = await world.db.run.findUniqueOrThrow({ where: { id: run.id } });
  expect((await world.db.run.findUniqueOrThrow({ where: { id: run.id } })).dueAt.getTime()).toBeLessThan(
    Date.now() + 3_700_000,
  );
  await ground.worker.client.workflowService.deleteWorkflowExecution({
    namespace: 'default',
    workflowExecution: { workflowId: wakeWorkflowId(world.scribe.id, run.messageId), runId: temporalRunId as string },
  });
  await until('the run to be lost', async () => {
    await world.db
      .$executeRaw`UPDATE runs SET due_at = clock_timestamp() - interval '1 second' WHERE id = ${run.id} AND state = 'open'`;
    await reconcileOnce(ground.reconciler());
    return (await world.db.run.findUniqueOrThrow({ where: { id: run.id } })).ending === 'lost';
  });
});

test('a reset copy that stays parked gets a recheck signal: it is fenced and has no effect', async () => {
  const run = await ground.parkedRun(HOLD_SEND);
  await ground.untilReportedParked(run.messageId);
  const handle = ground.workflowOf(run.messageId);
  const { events } = await handle.fetchHistory();
  const last = events?.findLast((event) => event.workflowTaskCompletedEventAttributes);
  const { runId: copy } = await ground.worker.client.workflowService.resetWorkflowExecution({
    namespace: 'default',
    workflowExecution: { workflowId: wakeWorkflowId(world.scribe.id, run.messageId) },
    workflowTaskFinishEventId: last!.eventId!,
    requestId: `reset-${run.id}`,
  });
  await ground.untilReportedParked(run.messageId, copy);
  await until('the copy to end', async () => {
    await sweep();
    return (await ground.workflowOf(run.messageId, copy).describe()).status.name === 'COMPLETED';
  });
  await expect(ground.workflowOf(run.messageId, copy).result()).resolves.toMatchObject({ result: 'fenced' });
  expect(await world.db.task.count({ where: { runId: run.id } })).toBe(0);
  await expectLedgerEqualsRoom(world.db, run.id);
});

test('an execution whose run is missing in Postgres gets a recheck signal, and ends', async () => {
  const run = await ground.parkedRun(HOLD_SEND);
  const handle = ground.workflowOf(run.messageId);
  await ground.untilReportedParked(run.messageId);
  await world.db
    .$executeRaw`UPDATE runs SET workflow_id = 'forgotten', temporal_run_id = 'forgotten' WHERE id = ${run.id}`;
  await until('the execution to end', async () => {
    await sweep();
    return (await handle.describe()).status.name === 'COMPLETED';
  });
  await expect(handle.result()).resolves.toMatchObject({ result: 'fenced' });
});

test('parked runs in a correct state are not changed', async () => {
  const run = await ground.parkedRun(HOLD_SEND);
  const handle = ground.workflowOf(run.messageId);
  await ground.untilReportedParked(run.messageId);
  const before = (await handle.describe()).historyLength;
  await reconcileOnce(ground.reconciler());
  await sweep();
  expect((await handle.describe()).historyLength).toBe(before);
  expect((await world.db.run.findUniqueOrThrow({ where: { id: run.id } })).state).toBe('open');
});
