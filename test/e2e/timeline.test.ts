// GET /v1/runs/{run}/timeline and `npm run explain`: one list of the entries of ledger, room and history. If Temporal no
// longer has the run or does not answer, the list has only the entries of ledger and room.

import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { NO_HISTORIES, openHistories, type RunHistories } from '../../worker/temporal/histories';
import { readTemporalSettings } from '../../worker/temporal/settings';
import { replayHistory } from '../../worker/cli/explain/replay';
import { expectStatus, setUpRoom, startTestApi, type Json, type TestApi, type TestRoom } from '../support/api';
import { failingIn } from '../support/faults';
import { resetExecution } from '../support/histories-read';
import { closedRun, startTestWorker, temporalAddress, until, type TestWorker } from '../support/runs';
import { answer, startScriptedModel, type ScriptedModel } from '../support/scripted-model-server';
import { COMPILED } from '../support/compiled';

const CLI = join(COMPILED, 'worker', 'cli', 'main.js');
const execute = promisify(execFile);

/** Every kind of step. Each contains a word that a timeline must not show. */
const EVERYTHING = answer.reply({
  reply: 'Canary reply.',
  memory: { category: 'fact', content: 'canary memory', tags: ['canarytag'], visibility: 'shared' },
  tasks_to_send: [
    { to: 'clerk', goal: 'canary goal', acceptance_criteria: ['canary'], priority: 'normal', deadline: null },
  ],
});

/** The reader of histories that the API uses; a test may replace it. */
let reader: RunHistories = NO_HISTORIES;
let real: RunHistories;
let folder: string;
/** A namespace without executions. */
const namespace = `elsewhere-${randomBytes(4).toString('hex')}`;
let model: ScriptedModel;
let api: TestApi;
let room: TestRoom;
let worker: TestWorker;
/** A worker that can't write memory, on its own task queue. */
let failing: TestWorker;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'durable-room-timeline-'));
  model = await startScriptedModel();
  real = openHistories(readTemporalSettings({ TEMPORAL_ADDRESS: temporalAddress() }), undefined);
  const histories: RunHistories = { read: (execution) => reader.read(execution), close: () => Promise.resolve() };
  api = await startTestApi({ providers: { openai: model.url }, histories });
  room = await setUpRoom(api);
  // A task for this agent starts no run, so it does not disturb the other runs.
  const clerk = { slug: 'clerk', name: 'Clerk', instructions: 'File it.', always_on: false };
  const { id: agent } = await expectStatus(201, room.larkspur.admin.post('/v1/agents', clerk));
  await expectStatus(201, room.larkspur.admin.post(`${room.path}/roster`, { agent, preset: 'autonomous' }));
  worker = await startTestWorker(api, { dispatch: false, timeouts: { heartbeatMs: 10_000 } });
  await worker.client.workflowService.registerNamespace({
    namespace,
    workflowExecutionRetentionPeriod: { seconds: 86_400 as never },
  });
  const unreachable = (): Error => Object.assign(new Error('gone'), { code: 'ECONNRESET' });
  failing = await startTestWorker(api, {
    dispatch: false,
    deps: { db: failingIn(api.db, 'writeMemory', unreachable) },
  });
});
beforeEach(() => {
  reader = real;
  model.reset();
});
afterAll(async () => {
  await worker.stop();
  await failing.stop();
  await real.close();
  await api.close();
  await model.stop();
  await rm(folder, { recursive: true, force: true });
});

/** Posts a message that wakes Scribe, and waits for its run and its workflow to end. */
async function run(by = worker): Promise<{ id: string; workflowId: string }> {
  const body = await expectStatus(201, room.larkspur.member.post(`${room.path}/events`, message()));
  await by.dispatch();
  const closed = await closedRun(api.db, body.id, room.larkspur.agentId);
  await by.client.workflow.getHandle(closed.workflowId).result();
  return closed;
}

const message = (): object => ({ type: 'message', text: '@scribe canary question' });
const timeline = (runId: string): Promise<Json> =>
  expectStatus(200, room.larkspur.member.get(`/v1/runs/${runId}/timeline`));
const messagesOf = (body: Json): string[] => body.data.map((entry: Json) => entry.message);

test('the timeline of a run with every kind of step lists wake, claim, request, steps, room events and history by time', async () => {
  model.script(EVERYTHING);
  const { id } = await run();
  const body = await timeline(id);
  expect(body).toMatchObject({ run: id, state: 'closed', ending: 'replied', not_done: [], history: { state: 'read' } });
  const times = body.data.map((entry: Json) => Date.parse(entry.at));
  expect(times).toEqual([...times].sort((a, b) => a - b));
  expect(new Set(body.data.map((entry: Json) => entry.source))).toEqual(new Set(['ledger', 'room', 'temporal']));
  const messages = messagesOf(body);
  for (const expected of [
    /^wake is written: message msg_/,
    /^wake is delivered/,
    /^Temporal has the start of wake\//,
    /^workflow execution is started$/,
    /^claim is granted, once and for good, to Temporal run /,
    /^model request 1 is claimed, then sent$/,
    /^model request 1 ends: answered$/,
    /^callModel \(model call\) answers: reply$/,
    /^postReply \(reply\): attempt 1 is with a worker$/,
    /^reply is done: msg_/,
    /^memory is done: mem_/,
    /^task_send:1 is done: task_/,
    /^room event \d+: message msg_/,
    /^room event \d+: memory mem_/,
    /^room event \d+: task task_/,
    /^room event \d+: run_ended run_/,
    /^run is closed: replied; no late attempt/,
    /^workflow execution is completed: ended · replied · run_/,
  ]) {
    expect(messages).toContainEqual(expect.stringMatching(expected));
  }
  expect(JSON.stringify(body)).not.toMatch(/canary/i);
});

test('the timeline of a run that failed at a step shows the failed attempt and the steps that were not reached', async () => {
  model.script(EVERYTHING);
  const { id } = await run(failing);
  const body = await timeline(id);
  expect(body).toMatchObject({
    ending: 'partial',
    not_done: [
      { step: 'memory', state: 'failed', code: 'outcome_unknown' },
      { step: 'task_send:1', state: 'not_reached', code: null },
    ],
  });
  expect(messagesOf(body)).toContainEqual(expect.stringMatching(/^writeMemory \(memory\) fails: Transient: /));
  expect(messagesOf(body)).toContain('task_send:1: not_reached');
});

test('the timeline of an open run shows its unfinished attempt and no step', async () => {
  const held = answer.hold('late');
  model.script(held);
  const { id: messageId } = await expectStatus(201, room.larkspur.member.post(`${room.path}/events`, message()));
  await worker.dispatch();
  await model.waitForRequests(1);
  const { id } = await api.db.run.findFirstOrThrow({ where: { messageId } });
  const body = await until('the pending attempt', async () => {
    const seen = await timeline(id);
    return messagesOf(seen).includes('callModel: attempt 1 is not over yet') && seen;
  });
  expect(body).toMatchObject({ state: 'open', ending: null, not_done: [] });
  held.release();
  await closedRun(api.db, messageId);
});

test('the timeline of a run shows the copy that a reset of its execution created', async () => {
  model.script('Hello.');
  const { id, workflowId } = await run();
  const runId = await resetExecution(worker.client, workflowId);
  await worker.client.workflow.getHandle(workflowId, runId).result();
  const body = await until('the copy to be listed', async () => {
    const seen = await timeline(id);
    return messagesOf(seen).some((entry) => entry.startsWith(`${runId} ends`)) && seen;
  });
  expect(messagesOf(body)).toContain(`another execution, ${runId}, is started`);
  expect(body.ending).toBe('replied');
});

test('the timeline shows the same ledger if Temporal no longer has the run, does not answer, or is not configured', async () => {
  model.script('Hello.');
  const { id } = await run();
  const whole = await timeline(id);
  const ledger = whole.data.filter((entry: Json) => entry.source !== 'temporal');
  expect(ledger.length).toBeLessThan(whole.data.length);

  reader = NO_HISTORIES;
  expect(await timeline(id)).toMatchObject({ history: { state: 'not_configured' }, data: ledger, ending: 'replied' });

  const away = openHistories(readTemporalSettings({ TEMPORAL_ADDRESS: '127.0.0.1:1' }), undefined);
  reader = away;
  const unreachable = await timeline(id);
  expect(unreachable).toMatchObject({ history: { state: 'unreachable' }, data: ledger });
  // A company must not see the addresses of the servers.
  expect(JSON.stringify(unreachable)).not.toContain('127.0.0.1');
  await away.close();

  // As after the retention period or in a restored cluster: the server answers and does not have the execution.
  const elsewhere = openHistories(
    readTemporalSettings({ TEMPORAL_ADDRESS: temporalAddress(), TEMPORAL_NAMESPACE: namespace }),
    undefined,
  );
  reader = elsewhere;
  const forgotten = await until('the namespace to be known', async () => {
    const seen = await timeline(id);
    return seen.history.state !== 'unreachable' && seen;
  });
  expect(forgotten).toMatchObject({ history: { state: 'forgotten' }, data: ledger, ending: 'replied' });
  expect(forgotten.history.message).toMatch(/from the ledger alone/);
  await elsewhere.close();
});

test('another company of the room gets the same 404 as for an unknown run; an agent key of the own company may read it', async () => {
  model.script('Hello.');
  const { id } = await run();
  const path = `/v1/runs/${id}/timeline`;
  const theirs = await expectStatus(404, room.tamarack.admin.get(path));
  const missing = await expectStatus(404, room.tamarack.admin.get(`/v1/runs/${otherId(id)}/timeline`));
  expect({ ...theirs, request_id: null, instance: null }).toEqual({ ...missing, request_id: null, instance: null });
  await expectStatus(200, room.larkspur.agent.get(path));
  await expectStatus(200, room.larkspur.service.get(path));
  await expectStatus(403, api.client(api.operatorKey).get(path));
});

function otherId(id: string): string {
  return id.slice(0, -1) + (id.endsWith('0') ? '1' : '0');
}

/** Runs the compiled command and returns its exit code and output. */
async function explain(...args: string[]): Promise<{ code: number; stdout: string; stderr: string }> {
  const env = {
    PATH: process.env['PATH'],
    DATABASE_URL: api.databaseUrl,
    TEMPORAL_ADDRESS: temporalAddress(),
    DATA_FOLDER: join(folder, 'none'),
  };
  try {
    return { code: 0, ...(await execute(process.execPath, [CLI, 'explain', ...args], { env })) };
  } catch (error) {
    const { code, stdout, stderr } = error as { code: number; stdout: string; stderr: string };
    return { code, stdout, stderr };
  }
}

test('explain prints the timeline, writes a history file that replays, and replays the history with this code', async () => {
  model.script(EVERYTHING);
  const { id, workflowId } = await run();
  const file = join(folder, 'history.json');
  const { code, stdout, stderr } = await explain(id, '--json', '--history', file, '--replay');
  expect(stderr).toMatch(/this code \(build [0-9a-f]{8}\) replays it/);
  expect(code).toBe(0);
  const body = await timeline(id);
  expect(JSON.parse(stdout)).toEqual(body);
  const printed = await explain(id);
  expect(printed.code).toBe(0);
  for (const entry of messagesOf(body)) expect(printed.stdout).toContain(entry);

  const history = JSON.parse(await readFile(file, 'utf8'));
  expect(await replayHistory(history, workflowId, undefined)).toMatchObject({ replays: true });
  const changed = JSON.parse(JSON.stringify(history).replaceAll('"postReply"', '"writeMemory"'));
  expect(await replayHistory(changed, workflowId, undefined)).toMatchObject({
    replays: false,
    difference: expect.stringMatching(/postReply|writeMemory/),
  });
});

test('explain reports an unknown run, and its usage if no run is given', async () => {
  expect(await explain('run_nobody')).toMatchObject({ code: 1, stderr: expect.stringContaining('no run run_nobody') });
  expect(await explain()).toMatchObject({ code: 2, stderr: expect.stringContaining('usage:') });
});
