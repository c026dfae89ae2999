// Cases of other systems in which one cause has several effects, and the test that shows the result here.
//
//   one message, delivered many times under many ids      never-twice: 50 starts under its workflow id, 50 under others
//   a hidden transport retry posts twice                  lost-answers: every COMMIT is cut before and after it is done
//   a "retry" mark counts as proof of a first delivery    lost-answers: a later claim attempt counts like the first
//   two workers at once during a deploy                   many-at-once, and by processes crash/deploy-drill
//   killed at the time limit, then retried                here
//   an attempt storm after an ordinary error              never-twice: one attempt, in every activity
//   the engine's default of endless retries               here: every activity has its policy, and a new one needs its own
//   client retries times activity retries                 here
//   a lock lost while its holder was only slow            crash/worker-frozen: a claim has no expiry to lose
//   a failed run that suppresses a later good run         here
//   saved, and the wake never started                     cases-temporal

import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { ActivityOptions } from '@temporalio/workflow';
import { createActivities, type ActivityDeps } from '../../activities';
import { loadRun } from '../../prisma/store/runs/run-reads';
import { STEP_KINDS, WORKFLOW_TYPE, wakeWorkflowId, type AgentRunInput } from '../../workflows/contract';
import { expectLedgerEqualsRoom, waitForNothingHeld } from '../support/ledger';
import { closedRun, startTestWorker, until, type TestWorker } from '../support/runs';
import { answer, startScriptedModel, type ScriptedModel } from '../support/scripted-model-server';
import { createWorld, type World } from '../support/world';
import { STEP_RULES } from '../../workflows/policy/steps';

let model: ScriptedModel;
let world: World;
const workers: TestWorker[] = [];

beforeAll(async () => {
  model = await startScriptedModel();
  world = await createWorld({ modelUrl: model.url });
});
afterEach(async () => {
  for (const worker of workers.splice(0)) await worker.stop();
  model.reset();
});
afterAll(async () => {
  await waitForNothingHeld(world.db);
  await world.close();
  await model.stop();
});

async function startWorker(options: Parameters<typeof startTestWorker>[1] = {}): Promise<TestWorker> {
  const worker = await startTestWorker(world, options);
  workers.push(worker);
  return worker;
}

test('an answer after the time limit: one request, one attempt, no reply, and the task stays open', async () => {
  const worker = await startWorker({ timeouts: { limitMs: 6_000, modelMs: 60_000, heartbeatMs: 5_000 } });
  const held = answer.hold('too late');
  model.script(held);
  const { messageId, taskId } = await world.sendTask('scribe', 'what takes too long');
  const run = await closedRun(world.db, messageId);
  held.release();

  expect(run).toMatchObject({ ending: 'timed_out', reply: null, steps: [] });
  await worker.client.workflow.getHandle(run.workflowId).result();
  const { events } = await worker.client.workflow.getHandle(run.workflowId).fetchHistory();
  const attempts = (events ?? []).flatMap((event) => event.activityTaskStartedEventAttributes?.attempt ?? []);
  expect(new Set(attempts)).toEqual(new Set([1]));
  expect(model.requests).toHaveLength(1);
  await until('the request to be given up', async () => model.requests[0]?.aborted);
  expect(await world.db.message.count({ where: { refersTo: messageId } })).toBe(0);
  expect(await world.db.task.findUniqueOrThrow({ where: { id: taskId } })).toMatchObject({
    state: 'in_progress',
    result: null,
  });
  await expectLedgerEqualsRoom(world.db, run.id);
});

describe('every activity has an explicit number of attempts', () => {
  const WORKFLOWS = join(__dirname, '..', '..', 'workflows');
  const T = { limitMs: 300_000, stepMs: 10_000, modelMs: 95_000, heartbeatMs: 10_000 };
  const ONCE = { maximumAttempts: 1 };

  /** The options of every proxy that proxies.ts makes, by the function that makes it. */
  function loadOptions(): Record<'always' | 'model' | 'stop' | 'resume', ActivityOptions[]> {
    const made: ActivityOptions[] = [];
    const take = (): ActivityOptions[] => made.splice(0);
    let proxies: typeof import('../../workflows/proxies') | undefined;
    jest.isolateModules(() => {
      jest.doMock('@temporalio/workflow', () => ({
        proxyActivities: (options: ActivityOptions) => (made.push(options), {}),
      }));
      proxies = jest.requireActual<typeof import('../../workflows/proxies')>('../../workflows/proxies');
      jest.dontMock('@temporalio/workflow');
    });
    if (!proxies) throw new Error('proxies.ts could not be loaded');
    const always = take();
    proxies.modelCall(T, 1_000);
    const modelOptions = take();
    proxies.stepActivities('stop', T, 1_000, 'a step');
    const stop = take();
    proxies.stepActivities('resume', T, 1_000, 'a step');
    return { always, model: modelOptions, stop, resume: take() };
  }

  test('an activity that acts runs once or within the time limit; one that only records retries until Postgres answers', () => {
    const options = loadOptions();
    expect(options.always).toHaveLength(3);
    for (const each of options.always) {
      expect(each).toMatchObject({ startToCloseTimeout: '10s', retry: { maximumInterval: '10s' } });
    }
    expect(options.stop).toMatchObject([{ retry: ONCE, scheduleToCloseTimeout: 1_000 }]);
    expect(options.resume).toMatchObject([{ retry: { maximumInterval: '5s' }, scheduleToCloseTimeout: 1_000 }]);
    expect(options.model).toMatchObject([{ retry: { maximumInterval: '8s' }, scheduleToCloseTimeout: 1_000 }]);
  });

  test('proxies.ts is the only file that calls activities, and it calls every activity', () => {
    const proxies = readFileSync(join(WORKFLOWS, 'proxies.ts'), 'utf8');
    const picked = [...proxies.matchAll(/Pick<Activities, ([^>]+)>/g)].flatMap(([, names = '']) =>
      [...names.matchAll(/'(\w+)'/g)].map(([, name]) => name),
    );
    expect(proxies).toContain('Pick<Activities, StepActivity>');
    picked.push(...STEP_KINDS.map((kind) => STEP_RULES[kind].activity));
    expect(picked.sort()).toEqual(Object.keys(createActivities({} as ActivityDeps)).sort());
    const callers = readdirSync(WORKFLOWS, { recursive: true, encoding: 'utf8' })
      .filter((name) => name.endsWith('.ts'))
      .filter((name) => /proxy(Local)?Activities|scheduleActivity/.test(readFileSync(join(WORKFLOWS, name), 'utf8')));
    expect(callers).toEqual(['proxies.ts']);
  });
});

describe('a provider that always fails', () => {
  test('gets three requests in total, also if another worker sends the third', async () => {
    const failing = answer.error(500, null, { 'retry-after-ms': '1500' });
    model.respond(() => failing);
    const first = await startWorker();
    const { messageId } = await world.post('@scribe is anybody there?');
    await model.waitForRequests(2);
    await workers.pop()?.stop();
    await startWorker({ taskQueue: first.taskQueue });
    const run = await closedRun(world.db, messageId);
    expect(run).toMatchObject({ ending: 'busy' });
    expect(run.requests.map((request) => request.outcome)).toEqual(['retry', 'retry', 'retry']);
    expect(model.requests).toHaveLength(3);
  });

  test('gets one request at an address that the owner supplied', async () => {
    await startWorker({ deps: { allowedModelHosts: [new URL(model.url).host] } });
    model.respond(() => answer.error(500, null, { 'retry-after-ms': '1' }));
    const owned = await world.addAgent({ slug: 'owned' });
    const { modelKeyId } = await world.db.agent.findUniqueOrThrow({ where: { id: owned.id } });
    await world.db.modelKey.update({ where: { id: modelKeyId as string }, data: { ownerSupplied: true } });
    const { messageId } = await world.post('@owned is anybody there?');
    expect(await closedRun(world.db, messageId)).toMatchObject({ ending: 'busy', requests: [{ outcome: 'retry' }] });
    expect(model.requests).toHaveLength(1);
  });
});

test('another delivery does not repeat a failed run; the same text in a new message is a new run', async () => {
  const worker = await startWorker();
  const { id: agent } = await world.addAgent({ slug: 'keyless' });
  model.script(answer.error(401, 'invalid_api_key'));
  const text = '@keyless do it';
  const { messageId } = await world.post(text);
  const failed = await closedRun(world.db, messageId);
  expect(failed).toMatchObject({ ending: 'refused', code: 'key_rejected' });

  await worker.client.workflow.getHandle(failed.workflowId).result();
  // The same message again, under its own workflow id and under another.
  const input: AgentRunInput = { agent, message: messageId };
  const start = (workflowId: string) =>
    worker.client.workflow.start(WORKFLOW_TYPE, { workflowId, taskQueue: worker.taskQueue, args: [input] });
  for (const workflowId of [wakeWorkflowId(agent, messageId), `again/${messageId}`]) {
    expect(await (await start(workflowId)).result()).toEqual({
      result: 'fenced',
      why: 'already_claimed',
      run: failed.id,
    });
  }
  const viewer = { companyId: world.host.id, agentId: null };
  expect(await loadRun(world.db, viewer, failed.id, new Map())).toMatchObject({
    state: 'closed',
    ending: 'refused',
    posted: null,
    fenced_count: 2,
  });
  expect(model.requests).toHaveLength(1);

  // The same text in a new message, after the secret of the key was replaced.
  const { modelKeyId } = await world.db.agent.findUniqueOrThrow({ where: { id: agent } });
  await world.db.modelKey.update({ where: { id: modelKeyId as string }, data: { version: { increment: 1 } } });
  const again = await world.post(text);
  const fresh = await closedRun(world.db, again.messageId);
  expect(fresh).toMatchObject({ ending: 'replied', fencedCount: 0 });
  expect(fresh.id).not.toBe(failed.id);
  await expectLedgerEqualsRoom(world.db, fresh.id);
});
