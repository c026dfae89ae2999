// After any start, repeat or reset of an execution: one claim, one reply, and no effect of another execution.

import { randomUUID } from 'node:crypto';
import { WorkflowExecutionAlreadyStartedError, WorkflowFailedError } from '@temporalio/client';
import { activityInfo } from '@temporalio/activity';
import type { History } from '@temporalio/common/lib/proto-utils';
import type { Run } from '../../prisma/generated/client';
import { createActivities, type ActivityDeps } from '../../activities';
import { newId } from '../../prisma/store/db/ids';
import type { Database } from '../../prisma/store/db/database';
import { deliverWakes } from '../../prisma/store/runs/wakes';
import { WORKFLOW_TYPE, wakeWorkflowId, type AgentRunInput, type AgentRunResult } from '../../workflows/contract';
import { startRun } from '../../worker/dispatcher';
import { InterceptedDatabase } from '../support/intercepted-database';
import { expectLedgerEqualsRoom, waitForNothingHeld } from '../support/ledger';
import { closedRun, startTestWorker, until, type TestWorker } from '../support/runs';
import { answer, startScriptedModel, type ScriptedModel } from '../support/scripted-model-server';
import { createWorld, type World } from '../support/world';

const DECLARED = {
  reply: 'Done.',
  memory: { category: 'fact', content: 'It was done.', tags: [], visibility: 'shared' },
  tasks_to_send: [{ to: 'clerk', goal: 'File it.', acceptance_criteria: [], priority: 'normal', deadline: null }],
} as const;

let model: ScriptedModel;
let world: World;
let worker: TestWorker;
/** The activity that throws after its work and before its COMMIT. */
let broken: string | null = null;
const logged: unknown[] = [];
/** A run whose workflow is deleted. The deletion takes long, so it starts before the tests. */
let forgotten: Run;

beforeAll(async () => {
  model = await startScriptedModel();
  world = await createWorld({ modelUrl: model.url });
  const clerk = await world.addAgent({ slug: 'clerk' });
  await world.db.agent.update({ where: { id: clerk.id }, data: { alwaysOn: false } });
  worker = await startTestWorker(world, {
    dispatch: false,
    // Long timeouts for a busy machine: an attempt that times out too early sends another model request.
    timeouts: { heartbeatMs: 5_000 },
    deps: { db: breakable(world.db), logFailure: ({ error }) => void logged.push(error) },
  });
  forgotten = await startForgetting();
  model.reset();
});
afterEach(() => {
  broken = null;
  model.reset();
});
afterAll(async () => {
  await worker.stop();
  await waitForNothingHeld(world.db);
  await world.close();
  await model.stop();
});

function breakable(db: Database): Database {
  return new InterceptedDatabase(db, (work, run) =>
    run(async (tx) => {
      const result = await work(tx);
      if (activityInfo().activityType === broken) throw new Error('a bug');
      return result;
    }),
  );
}

function startByHand(input: AgentRunInput, workflowId = `by-hand/${randomUUID()}`) {
  return worker.client.workflow.start(WORKFLOW_TYPE, { workflowId, taskQueue: worker.taskQueue, args: [input] });
}

async function resultOf(input: AgentRunInput, workflowId?: string): Promise<AgentRunResult> {
  const handle = await startByHand(input, workflowId);
  return (await handle.result()) as AgentRunResult;
}

async function expectDoneOnce(messageId: string, fencedCount: number): Promise<void> {
  const runs = await world.db.run.findMany({ where: { messageId }, include: { requests: true } });
  expect(runs).toMatchObject([{ state: 'closed', ending: 'replied', fencedCount }]);
  const run = runs[0];
  if (!run) return;
  expect(run.requests).toHaveLength(1);
  expect(await world.db.agentRunLock.count({ where: { messageId } })).toBe(1);
  expect(await world.db.message.count({ where: { runId: run.id, kind: 'text' } })).toBe(1);
  await expectLedgerEqualsRoom(world.db, run.id);
}

test('a wake started 50 times under its workflow id and 50 times under others is claimed and answered once', async () => {
  const { messageId } = await world.post('@scribe hello, a hundred times');
  const wakes = await deliverWakes(world.db, 10);
  expect(wakes).toHaveLength(1);
  const wake = wakes[0] as (typeof wakes)[number];
  const input = { agent: world.scribe.id, message: messageId };
  const under = Array.from({ length: 50 }, () => startRun(worker.client.workflow, worker.taskQueue, wake));
  const others = Array.from({ length: 50 }, () => resultOf(input));
  const starts = await Promise.allSettled(under);
  const results = await Promise.all(others);

  expect(starts.filter((start) => start.status === 'fulfilled')).toHaveLength(1);
  const refused = starts.filter((start) => start.status === 'rejected').map((start) => start.reason as unknown);
  expect(refused.every((error) => error instanceof WorkflowExecutionAlreadyStartedError)).toBe(true);
  const { id } = await closedRun(world.db, messageId);
  const own = await worker.client.workflow.getHandle(wakeWorkflowId(input.agent, messageId)).result();
  const all = [...results, own as AgentRunResult];
  expect(all.filter(({ result }) => result === 'ended')).toEqual([{ result: 'ended', run: id, ending: 'replied' }]);
  expect(all.filter((each) => each.result === 'fenced' && each.why === 'already_claimed')).toHaveLength(50);
  expect(model.requests).toHaveLength(1);
  await expectDoneOnce(messageId, 50);
});

test('a workflow started by hand without a delivered wake is refused, and reads and writes nothing', async () => {
  const { messageId: unaddressed } = await world.post('no agent is meant');
  const { messageId: tooDeep } = await world.post('@scribe too many hops', { hop: 99 });
  const { messageId: pending } = await world.post('@scribe not yet');
  const agent = world.scribe.id;
  const before = await world.db.roomEvent.count();

  expect(await resultOf({ agent, message: newId('msg') })).toEqual({ result: 'refused', why: 'no_wake' });
  expect(await resultOf({ agent, message: unaddressed })).toEqual({ result: 'refused', why: 'no_wake' });
  expect(await resultOf({ agent, message: tooDeep })).toEqual({ result: 'refused', why: 'suppressed' });
  expect(await resultOf({ agent, message: pending })).toEqual({ result: 'refused', why: 'not_delivered' });

  expect(await world.db.roomEvent.count()).toBe(before);
  expect(await world.db.agentRunLock.count({ where: { messageId: { in: [unaddressed, tooDeep, pending] } } })).toBe(0);
  expect(model.requests).toHaveLength(0);
  // The wake itself still runs.
  await worker.dispatch();
  await closedRun(world.db, pending);
  await expectDoneOnce(pending, 0);
});

test('a finished run, reset to each of its workflow tasks, does nothing a second time', async () => {
  model.script(answer.reply(DECLARED));
  const { messageId } = await world.post('@scribe do three things');
  await worker.dispatch();
  const run = await closedRun(world.db, messageId);
  await worker.client.workflow.getHandle(run.workflowId).result();
  const points = await workflowTasksOf(run);
  // Claim, model, three steps, and the end.
  expect(points).toHaveLength(6);

  const results: unknown[] = [];
  for (const workflowTaskFinishEventId of points) {
    results.push(await resetTo(run, workflowTaskFinishEventId));
  }
  const fenced = { result: 'fenced', why: 'not_mine', run: run.id };
  expect(results).toEqual([
    { result: 'fenced', why: 'already_claimed', run: run.id },
    // After a reset to the model call or later, the copy is fenced. A reset to the last task only returns the ending.
    fenced,
    fenced,
    fenced,
    fenced,
    { result: 'ended', run: run.id, ending: 'replied' },
  ]);
  expect(model.requests).toHaveLength(1);
  await expectDoneOnce(messageId, 5);
});

test('a run that is reset while its model answers is fenced, and the answer is neither stored nor posted', async () => {
  model.script(answer.hold('too late'));
  const { messageId } = await world.post('@scribe wait');
  await worker.dispatch();
  await model.waitForRequests(1);
  const run = await world.db.run.findFirstOrThrow({ where: { messageId } });
  const result = await resetTo(run, (await workflowTasksOf(run)).at(-1));
  expect(result).toEqual({ result: 'fenced', why: 'not_mine', run: run.id });
  expect(await world.db.modelRequest.count({ where: { runId: run.id } })).toBe(1);
  // The attempt of the terminated execution learns of it by its heartbeat.
  await until('the request to be given up', async () => model.requests[0]?.aborted);
  expect(await world.db.message.count({ where: { runId: run.id } })).toBe(0);
});

describe('an unexpected error is a bug, and its activity is never retried', () => {
  const acting = [
    { activity: 'callModel', ending: 'failed', states: [] },
    { activity: 'postReply', ending: 'failed', states: ['failed', 'not_reached', 'not_reached', 'not_reached'] },
    { activity: 'writeMemory', ending: 'partial', states: ['done', 'failed', 'not_reached', 'not_reached'] },
    { activity: 'updateTask', ending: 'partial', states: ['done', 'done', 'failed', 'not_reached'] },
    { activity: 'sendTask', ending: 'partial', states: ['done', 'done', 'done', 'failed'] },
  ];
  const others = ['claimMessage', 'closeRun'];

  test('every activity is tested here, except `findEnding` and `openHeldActions`', () => {
    const elsewhere = new Set(['findEnding', 'openHeldActions']);
    const known = Object.keys(createActivities({} as ActivityDeps)).filter((name) => !elsewhere.has(name));
    expect([...acting.map(({ activity }) => activity), ...others].sort()).toEqual(known.sort());
  });

  test.each(acting)('in $activity: one attempt, and the run ends $ending', async ({ activity, ending, states }) => {
    broken = activity;
    const { messageId, taskId } = await world.sendTask('scribe', 'do four things');
    const task_updates = [{ task: taskId, state: 'done', result: 'done' } as const];
    model.script(answer.reply({ ...DECLARED, task_updates }));
    await worker.dispatch();
    const run = await closedRun(world.db, messageId);
    expect(run).toMatchObject({ ending, code: 'internal' });
    expect(run.steps.map((step) => step.state)).toEqual(states);
    expect(await attemptsOf(run.workflowId, activity)).toEqual([1]);
    expect(model.requests.length).toBeLessThanOrEqual(1);
    expect(logged.splice(0)).toMatchObject([{ message: 'a bug' }]);
    await expectLedgerEqualsRoom(world.db, run.id);
  });

  test.each(others)('in %s: one attempt, and the workflow fails', async (activity) => {
    broken = activity;
    model.script(answer.error(401, 'invalid_api_key'));
    const { messageId } = await world.post('@scout do something');
    await worker.dispatch();
    const workflowId = wakeWorkflowId(world.scout.id, messageId);
    await expect(worker.client.workflow.getHandle(workflowId).result()).rejects.toBeInstanceOf(WorkflowFailedError);
    expect(await attemptsOf(workflowId, activity)).toEqual([1]);
    logged.splice(0);
    // The failed transaction is rolled back: the reconciler finds an unclaimed wake or an open run.
    expect(await world.db.agentRunLock.count({ where: { messageId } })).toBe(activity === 'claimMessage' ? 0 : 1);
    expect(await world.db.run.count({ where: { messageId, state: 'closed' } })).toBe(0);
  });
});

test('a wake started again after its workflow was deleted is refused by the claim alone', async () => {
  const run = forgotten;
  const handle = worker.client.workflow.getHandle(run.workflowId, run.temporalRunId as string);
  await until('the workflow to be gone', () =>
    handle.describe().then(
      () => false,
      () => true,
    ),
  );
  const again = await resultOf({ agent: run.agentId, message: run.messageId }, run.workflowId);
  expect(again).toEqual({ result: 'fenced', why: 'already_claimed', run: run.id });
  await expectDoneOnce(run.messageId, 1);
});

/** A run that ended, and whose workflow is deleted from Temporal. */
async function startForgetting(): Promise<Run> {
  const { messageId } = await world.post('@scribe hello');
  await worker.dispatch();
  const run = await closedRun(world.db, messageId);
  const execution = { workflowId: run.workflowId, runId: run.temporalRunId };
  await worker.client.workflow.getHandle(execution.workflowId, execution.runId as string).result();
  await worker.client.workflowService.deleteWorkflowExecution({ namespace: 'default', workflowExecution: execution });
  return run;
}

type EventId = NonNullable<History['events']>[number]['eventId'];

/** The events at which the workflow of this run can be reset: those that completed a workflow task. */
async function workflowTasksOf(run: Run): Promise<EventId[]> {
  const handle = worker.client.workflow.getHandle(run.workflowId, run.temporalRunId as string);
  const { events } = await handle.fetchHistory();
  return (events ?? []).filter((each) => each.workflowTaskCompletedEventAttributes).map((each) => each.eventId);
}

/** Resets the run's own execution and returns the result of the copy. */
async function resetTo(run: Run, workflowTaskFinishEventId: EventId): Promise<unknown> {
  const { runId } = await worker.client.workflowService.resetWorkflowExecution({
    namespace: 'default',
    workflowExecution: { workflowId: run.workflowId, runId: run.temporalRunId },
    reason: 'test',
    requestId: randomUUID(),
    workflowTaskFinishEventId: workflowTaskFinishEventId ?? null,
  });
  return worker.client.workflow.getHandle(run.workflowId, runId).result();
}

async function attemptsOf(workflowId: string, activity: string): Promise<number[]> {
  const { events } = await worker.client.workflow.getHandle(workflowId).fetchHistory();
  const all = events ?? [];
  const scheduled = all.filter((event) => event.activityTaskScheduledEventAttributes?.activityType?.name === activity);
  const ids = new Set(scheduled.map((event) => String(event.eventId)));
  return all
    .map((event) => event.activityTaskStartedEventAttributes)
    .filter((started) => started && ids.has(String(started.scheduledEventId)))
    .map((started) => started?.attempt ?? 0);
}
