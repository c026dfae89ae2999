// GET /v1/runs/{run}/timeline and `npm run explain`: one list of ledger, room and history, and the same from the ledger
// alone where Temporal has forgotten the run or does not answer.

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

/** Every kind of step, with a word in each that no timeline may show. */
const EVERYTHING = answer.reply({
  reply: 'Canary reply.',
  memory: { category: 'fact', content: 'canary memory', tags: ['canarytag'], visibility: 'shared' },
  tasks_to_send: [
    { to: 'clerk', goal: 'canary goal', acceptance_criteria: ['canary'], priority: 'normal', deadline: null },
  ],
});

/** Which reader the API asks is each test's choice. */
let reader: RunHistories = NO_HISTORIES;
let real: RunHistories;
let folder: string;
/** Without any execution in it. */
const namespace = `elsewhere-${randomBytes(4).toString('hex')}`;
let model: ScriptedModel;
let api: TestApi;
let room: TestRoom;
let worker: TestWorker;
/** A worker that can't write memory, on a queue of its own. */
let failing: TestWorker;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'durable-room-timeline-'));
  model = await startScriptedModel();
  real = openHistories(readTemporalSettings({ TEMPORAL_ADDRESS: temporalAddress() }), undefined);
  const histories: RunHistories = { read: (execution) => reader.read(execution), close: () => Promise.resolve() };
  api = await startTestApi({ providers: { openai: model.url }, histories });
  room = await setUpRoom(api);
  // Tasks for it wake nobody, so that no run is in another's way.
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
const saysOf = (body: Json): string[] => body.data.map((entry: Json) => entry.message);

test('a run that did everything: one list in time order of wake, claim, request, steps, room events and history', async () => {
  model.script(EVERYTHING);
  const { id } = await run();
  const body = await timeline(id);
  expect(body).toMatchObject({ run: id, state: 'closed', ending: 'replied', not_done: [], history: { state: 'read' } });
  const times = body.data.map((entry: Json) => Date.parse(entry.at));
  expect(times).toEqual([...times].sort((a, b) => a - b));
  expect(new Set(body.data.map((entry: Json) => entry.source))).toEqual(new Set(['ledger', 'room', 'temporal']));
  const says = saysOf(body);
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
    expect(says).toContainEqual(expect.stringMatching(expected));
  }
  expect(JSON.stringify(body)).not.toMatch(/canary/i);
});

test('a run that stopped at a step: the attempt and its failure, and what was not reached', async () => {
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
  expect(saysOf(body)).toContainEqual(expect.stringMatching(/^writeMemory \(memory\) fails: Transient: /));
  expect(saysOf(body)).toContain('task_send:1: not_reached');
});

test('a run under way: its attempt is not over, and no step is known yet', async () => {
  const held = answer.hold('late');
  model.script(held);
  const { id: messageId } = await expectStatus(201, room.larkspur.member.post(`${room.path}/events`, message()));
  await worker.dispatch();
  await model.waitForRequests(1);
  const { id } = await api.db.run.findFirstOrThrow({ where: { messageId } });
  const body = await until('the pending attempt', async () => {
    const seen = await timeline(id);
    return saysOf(seen).includes('callModel: attempt 1 is not over yet') && seen;
  });
  expect(body).toMatchObject({ state: 'open', ending: null, not_done: [] });
  held.release();
  await closedRun(api.db, messageId);
});

test('a reset copy of an execution stands in the timeline of the run that it met', async () => {
  model.script('Hello.');
  const { id, workflowId } = await run();
  const runId = await resetExecution(worker.client, workflowId);
  await worker.client.workflow.getHandle(workflowId, runId).result();
  const body = await until('the copy to be listed', async () => {
    const seen = await timeline(id);
    return saysOf(seen).some((says) => says.startsWith(`${runId} ends`)) && seen;
  });
  expect(saysOf(body)).toContain(`another execution, ${runId}, is started`);
  expect(body.ending).toBe('replied');
});

test('the same ledger where Temporal has forgotten the run, does not answer, or is not configured', async () => {
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
  // A tenant is not told where our servers are.
  expect(JSON.stringify(unreachable)).not.toContain('127.0.0.1');
  await away.close();

  // As after its retention, or in a cluster that was restored: the server answers, and does not know it.
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

test('another company gets 404 as if there were no such run, also in the same room; an own agent key may look', async () => {
  model.script('Hello.');
  const { id } = await run();
  const path = `/v1/runs/${id}/timeline`;
  const theirs = await expectStatus(404, room.tamarack.admin.get(path));
  const nobodys = await expectStatus(404, room.tamarack.admin.get(`/v1/runs/${otherId(id)}/timeline`));
  expect({ ...theirs, request_id: null, instance: null }).toEqual({ ...nobodys, request_id: null, instance: null });
  await expectStatus(200, room.larkspur.agent.get(path));
  await expectStatus(200, room.larkspur.service.get(path));
  await expectStatus(403, api.client(api.operatorKey).get(path));
});

function otherId(id: string): string {
  return id.slice(0, -1) + (id.endsWith('0') ? '1' : '0');
}

/** Runs the compiled command, and returns how it ended. */
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

test('explain prints the same content, writes a history that replays, and replays it against this code', async () => {
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
  for (const says of saysOf(body)) expect(printed.stdout).toContain(says);

  const history = JSON.parse(await readFile(file, 'utf8'));
  expect(await replayHistory(history, workflowId, undefined)).toMatchObject({ replays: true });
  const changed = JSON.parse(JSON.stringify(history).replaceAll('"postReply"', '"writeMemory"'));
  expect(await replayHistory(changed, workflowId, undefined)).toMatchObject({
    replays: false,
    difference: expect.stringMatching(/postReply|writeMemory/),
  });
});

test('explain says what it was not given: no such run, no run at all', async () => {
  expect(await explain('run_nobody')).toMatchObject({ code: 1, stderr: expect.stringContaining('no run run_nobody') });
  expect(await explain()).toMatchObject({ code: 2, stderr: expect.stringContaining('usage:') });
});
