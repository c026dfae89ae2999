// Failures that other systems had because of the rules and limits of their workflow engine, and the tests that cover them.
//
//   a message is saved, but its wake never starts     here: Temporal is down; the answer to a start is lost
//   a deploy breaks open runs                         replay/replay.test and crash/deploy-drill
//   a batch is too large for one message              here
//   a start succeeds, but nothing runs                here and never-twice (while it runs; after its history was deleted)
//   the number of signals and the history are not     here
//   bounded
//   a cancel does not reach a call                    always-an-ending: a workflow cancelled during its model call
//   a new namespace lacks a search attribute          here

import { randomUUID } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { WorkflowExecutionAlreadyStartedError, type Client } from '@temporalio/client';
import pino from 'pino';
import { claimMessage } from '../../prisma/store/runs/claims';
import { createKey } from '../../prisma/store/access/keys';
import { closeAsLost } from '../../prisma/store/runs/fence';
import { deliverWakes } from '../../prisma/store/runs/wakes';
import { readWorkerConfig } from '../../worker/config';
import { dispatchOnce, startRun } from '../../worker/dispatcher';
import { findTemporalCli } from '../../worker/local/temporal-cli';
import { startEmbeddedTemporal, type EmbeddedTemporal } from '../../worker/local/temporal-server';
import { RECONCILER_TIMES, reconcileOnce } from '../../worker/reconciler';
import { startWorkerService, type WorkerService } from '../../worker/service';
import { connectTemporal, type Temporal } from '../../worker/connections';
import { DECLARED_TASKS_LIMIT, wakeWorkflowId } from '../../workflows/contract';
import { RECHECK_SIGNAL } from '../../workflows/messages';
import { SEARCH_ATTRIBUTES } from '../../workflows/search-attributes';
import { createClient, expectStatus, serveApi } from '../support/api';
import { expectLedgerEqualsRoom, waitForNothingHeld } from '../support/ledger';
import { closedRun, startTestWorker, temporalAddress, until, type TestWorker } from '../support/runs';
import { answer, startScriptedModel, type ScriptedModel } from '../support/scripted-model-server';
import { workerEnv } from '../support/worker-processes';
import { sharedWorkflowBundle } from '../support/workflow-bundle';
import { createWorld, type World } from '../support/world';
import { CLI_CACHE } from '../../worker/local/project-root';

let model: ScriptedModel;
let world: World;
let worker: TestWorker;
/** Closed in reverse order after each test, also after a failed test. */
const opened: (() => Promise<unknown>)[] = [];

beforeAll(async () => {
  model = await startScriptedModel();
  world = await createWorld({ modelUrl: model.url });
  worker = await startTestWorker(world, {
    dispatch: false,
    timeouts: { limitMs: 120_000, modelMs: 90_000, heartbeatMs: 30_000 },
  });
});
afterEach(async () => {
  for (const close of opened.splice(0).reverse()) await close();
  model.reset();
});
afterAll(async () => {
  await worker.stop();
  await waitForNothingHeld(world.db);
  await world.close();
  await model.stop();
});

/** Starts the production worker service in this process. */
async function startService(env: Record<string, string>): Promise<WorkerService> {
  const temporal: Temporal = await connectTemporal(env);
  opened.push(() => temporal.close());
  const service = await startWorkerService(readWorkerConfig(env), temporal, pino({ level: 'silent' }), {
    bundle: await sharedWorkflowBundle(),
  });
  service.running.catch(() => undefined);
  opened.push(() => service.stop());
  return service;
}

describe('a wake whose start fails', () => {
  test('while Temporal is down, the message is answered with 201 and its wake waits; one run follows when Temporal is back', async () => {
    const { path: cliPath } = await findTemporalCli({
      configuredPath: process.env['TEMPORAL_CLI_PATH'],
      cacheDir: CLI_CACHE,
      log: () => undefined,
    });
    const dir = await mkdtemp(join(tmpdir(), 'durable-room-down-'));
    opened.push(() => rm(dir, { recursive: true, force: true }));
    const start = (port?: number): Promise<EmbeddedTemporal> =>
      startEmbeddedTemporal({ cliPath, dir, headless: true, log: () => undefined, ...(port && { port }) });
    let server = await start();
    opened.push(() => server.stop());
    const downWorld = await createWorld({ modelUrl: model.url });
    opened.push(() => downWorld.close());
    await startService({ ...workerEnv(downWorld, 'down'), TEMPORAL_ADDRESS: server.address });
    const log = pino({ level: 'silent' });
    const deps = {
      db: downWorld.db,
      secretBox: downWorld.secretBox,
      providers: new Map(),
      allowedModelHosts: [],
      prices: new Map(),
      log,
    };
    const api = await serveApi(deps);
    opened.push(() => api.close());
    const key = { kind: 'service', name: 'a client', companyId: downWorld.host.id } as const;
    const { token } = await downWorld.db.transaction((tx) => createKey(tx, key));
    const client = createClient(api.url, token);

    const port = Number(server.address.split(':').at(-1));
    await server.stop();
    const text = '@scribe is anybody there?';
    const posted = await expectStatus(
      201,
      client.post(`/v1/rooms/${downWorld.roomId}/events`, { type: 'message', text }),
    );
    expect(posted.wakes).toMatchObject([{ agent: downWorld.scribe.id, status: 'pending', reason: null }]);
    const wakeOf = () => downWorld.db.wake.findFirstOrThrow({ where: { messageId: posted.id } });
    await until('the start to fail', async () => (await wakeOf()).deliveredAt !== null);
    const { data: waiting } = await expectStatus(200, client.get('/v1/wakes'));
    expect(waiting).toMatchObject([{ message: posted.id, state: 'delivered' }]);
    expect(await downWorld.db.run.count()).toBe(0);

    server = await start(port);
    const run = await closedRun(downWorld.db, posted.id);
    expect(run).toMatchObject({ ending: 'replied', fencedCount: 0 });
    expect(model.requests).toHaveLength(1);
    const room = await downWorld.db.room.findUniqueOrThrow({ where: { id: downWorld.roomId } });
    expect(room.runAllowance).toBe(999);
    await expectLedgerEqualsRoom(downWorld.db, run.id);
  });

  test('if the answer to the start is lost, the start is repeated and the wake runs once', async () => {
    let starts = 0;
    const losing = {
      workflow: {
        start: async (...args: Parameters<Client['workflow']['start']>) => {
          starts += 1;
          await worker.client.workflow.start(...args);
          throw new Error('14 UNAVAILABLE: the answer was lost');
        },
      },
    } as unknown as Client;
    const failed: string[] = [];
    const pass = (client: Client) =>
      dispatchOnce({
        db: world.db,
        client,
        taskQueue: worker.taskQueue,
        onStartFailed: (wake) => void failed.push(wake.messageId),
      });
    const { messageId } = await world.post('@scribe hello');
    expect(await pass(losing)).toMatchObject({ started: 0, failed: 1 });
    expect(failed).toEqual([messageId]);
    await world.db
      .$executeRaw`UPDATE wakes SET due_at = clock_timestamp() - interval '1 second' WHERE message_id = ${messageId}`;
    // A quick run has already claimed its wake, and a claim proves the start: then this pass repeats nothing.
    await pass(worker.client);
    const run = await closedRun(world.db, messageId);
    expect(run).toMatchObject({ ending: 'replied', fencedCount: 0 });
    expect([starts, model.requests.length]).toEqual([1, 1]);
    await expectLedgerEqualsRoom(world.db, run.id);
  });
});

test('a repeated start of a wake that has ended is refused and creates no second run', async () => {
  const { messageId } = await world.post('@scribe hello');
  const [wake] = await deliverWakes(world.db, 10);
  if (!wake) throw new Error('no wake was delivered');
  await startRun(worker.client.workflow, worker.taskQueue, wake);
  const run = await closedRun(world.db, messageId);
  await worker.client.workflow.getHandle(run.workflowId).result();
  await expect(startRun(worker.client.workflow, worker.taskQueue, wake)).rejects.toBeInstanceOf(
    WorkflowExecutionAlreadyStartedError,
  );
  expect(await world.db.run.findMany({ where: { messageId } })).toMatchObject([{ ending: 'replied', fencedCount: 0 }]);
  expect(model.requests).toHaveLength(1);
});

describe('a reply that declares many or long task updates', () => {
  const task = 'task_00000000000000000000000000';
  const updates = (count: number, size: number) =>
    Array.from({ length: count }, () => ({ task, state: 'done' as const, result: 'x'.repeat(size) }));

  test.each([
    // Six megabytes are more than the limit of a whole answer.
    ['60 tasks of 100 kB each', updates(60, 100_000), 'busy'],
    ['60 small tasks', updates(60, 10), 'failed'],
    ['one task more than the limit', updates(DECLARED_TASKS_LIMIT + 1, 10), 'failed'],
    ['one task of 100 kB', updates(1, 100_000), 'failed'],
  ])('%s: nothing is written, and the run has an ending', async (_, task_updates, ending) => {
    model.respond(() => answer.with(answer.reply({ reply: 'Much.', task_updates }), {}));
    const { messageId } = await world.post('@scribe do much');
    await worker.dispatch();
    const run = await closedRun(world.db, messageId);
    expect(run).toMatchObject({ ending, steps: [] });
    if (ending === 'failed') expect(run).toMatchObject({ code: 'reply_invalid' });
    expect(await world.db.message.count({ where: { runId: run.id } })).toBe(0);
    await expectLedgerEqualsRoom(world.db, run.id);
  });

  test('the highest number of task updates, each with the longest result, is accepted, and the history does not contain them', async () => {
    model.script(answer.reply({ reply: 'Much.', task_updates: updates(DECLARED_TASKS_LIMIT, 32_000) }));
    const { messageId } = await world.post('@scribe do as much as you may');
    await worker.dispatch();
    const run = await closedRun(world.db, messageId);
    expect(run).toMatchObject({ ending: 'replied' });
    expect(run.steps.map((step) => step.state)).toEqual(['done', ...Array(DECLARED_TASKS_LIMIT).fill('superseded')]);
    await worker.client.workflow.getHandle(run.workflowId).result();
    const described = await worker.client.workflow.getHandle(run.workflowId).describe();
    expect(described.historySize).toBeLessThan(64 * 1_024);
  });
});

test('hundreds of signals to one run do not change its ending, and its history stays bounded', async () => {
  const SIGNALS = 300;
  const held = answer.hold('in the end');
  model.script(held);
  const { messageId } = await world.post('@scribe wait');
  await worker.dispatch();
  await model.waitForRequests(1);
  const handle = worker.client.workflow.getHandle(wakeWorkflowId(world.scribe.id, messageId));
  for (let sent = 0; sent < SIGNALS; sent += 50) {
    await Promise.all(Array.from({ length: 50 }, () => handle.signal(RECHECK_SIGNAL)));
  }
  held.release();
  const run = await closedRun(world.db, messageId);
  await handle.result();
  const { historyLength } = await handle.describe();
  console.log(`history of ${historyLength} events after ${SIGNALS} signals`);
  expect(run).toMatchObject({ ending: 'replied', fencedCount: 0 });
  expect(model.requests).toHaveLength(1);
  // One check for each signal would cost seven events for each signal.
  expect(historyLength).toBeLessThan(4 * SIGNALS);
  await expectLedgerEqualsRoom(world.db, run.id);
});

test('an orphaned execution that does not process its signal gets no second signal from later reconciler passes', async () => {
  const taskQueue = `no-worker-${randomUUID()}`;
  const { messageId } = await world.post('@scribe hello');
  await dispatchOnce({ db: world.db, client: worker.client, taskQueue, onStartFailed: () => undefined });
  const wake = { agentId: world.scribe.id, messageId };
  const workflowId = wakeWorkflowId(wake.agentId, messageId);
  const handle = worker.client.workflow.getHandle(workflowId);
  opened.push(() => handle.terminate());
  const temporalRunId = (await handle.describe()).runId;
  const claim = await claimMessage(world.db, { workflowId, temporalRunId }, wake, { timeLimitMs: 30_000 });
  if (claim.kind !== 'granted') throw new Error(`the claim was not granted: ${claim.kind}`);
  await closeAsLost(world.db, claim.runId);
  await world.db
    .$executeRaw`UPDATE runs SET due_at = clock_timestamp() - interval '1 second' WHERE id = ${claim.runId}`;
  const actions: string[] = [];
  const pass = () =>
    reconcileOnce({
      db: world.db,
      client: worker.client,
      taskQueue,
      timeLimitMs: 30_000,
      times: { ...RECONCILER_TIMES, orphanGraceSeconds: 0 },
      onAction: (action) => void actions.push(action),
    });
  // Temporal lists an execution a moment after its start.
  await until('the signal', async () => (await pass()) && actions.length > 0);
  await Promise.all([pass(), pass(), pass()]);
  await pass();
  expect(actions).toEqual(['orphaned execution is signalled']);
  const { events } = await handle.fetchHistory();
  expect((events ?? []).filter((event) => event.workflowExecutionSignaledEventAttributes)).toHaveLength(1);
});

test('a worker does not start in a namespace without the search attributes; its error names the command that creates them', async () => {
  const namespace = `fresh-${randomUUID()}`;
  const { connection } = worker.client;
  const env = { ...workerEnv(world, 'fresh'), TEMPORAL_ADDRESS: temporalAddress(), TEMPORAL_NAMESPACE: namespace };
  // The namespace does not exist: the error is the server's.
  await expect(startService(env)).rejects.toThrow(/not found/i);

  const retention = { seconds: 86_400 as never };
  await connection.workflowService.registerNamespace({ namespace, workflowExecutionRetentionPeriod: retention });
  const refusal = await until('the namespace to be known', async () => {
    const error = await startService(env).catch((reason: unknown) => reason as Error);
    return error instanceof Error && !/not found/i.test(error.message) && error;
  });
  const flags = SEARCH_ATTRIBUTES.map((name) => `--name ${name} --type Keyword`).join(' ');
  expect(refusal.message).toContain(`lacks the search attributes ${SEARCH_ATTRIBUTES.join(', ')}`);
  expect(refusal.message).toContain(`temporal operator search-attribute create --namespace ${namespace} ${flags}`);

  // The error does not name an attribute that exists.
  const add = (names: readonly string[]) =>
    connection.operatorService.addSearchAttributes({
      namespace,
      searchAttributes: Object.fromEntries(names.map((name) => [name, KEYWORD])),
    });
  const [first, ...others] = SEARCH_ATTRIBUTES;
  await add([first]);
  const shorter = await until('the first attribute to be known', async () => {
    const error = await startService(env).catch((reason: unknown) => reason as Error);
    return error instanceof Error && !error.message.includes(first) && error;
  });
  expect(shorter.message).toContain(`lacks the search attributes ${others.join(', ')}`);

  await add(others);
  await until('the worker to start', () => startService(env).catch(() => null));
  const { messageId } = await world.post('@scribe hello there');
  expect(await closedRun(world.db, messageId)).toMatchObject({ ending: 'replied' });
});

/** The server's number for the type Keyword. */
const KEYWORD = 2;
