// No content in a history. All text from users, models and providers is marked: names, instructions, messages, tasks, memory,
// answers, errors and keys. The tests run every ending and failure, and then search everything that Temporal holds.

import { randomBytes } from 'node:crypto';
import { createSecretBox } from '../../workflows/policy/secret-box';
import { expireHeldActions } from '../../prisma/store/runs/held-actions/decide';
import { modelKeyBinding } from '../../prisma/store/model-keys/model-keys';
import { ENDINGS, type Ending, type RunTimeouts } from '../../workflows/contract';
import { reconcileOnce, RECONCILER_TIMES } from '../../worker/reconciler';
import { expectStatus, startTestApi, type ApiClient, type TestApi } from '../support/api';
import { failingIn } from '../support/faults';
import { readableExecution, resetExecution } from '../support/histories-read';
import { closedRun, startTestWorker, until, type TestWorker } from '../support/runs';
import { answer, startScriptedModel, type ScriptedAnswer, type ScriptedModel } from '../support/scripted-model-server';

/** Matches every planted text and no other text. */
const MARK = /canary/i;
const GO = { reply: 'go', memory: 'go', task_update: 'go', task_send: 'go' } as const;

let model: ScriptedModel;
let api: TestApi;
let admin: ApiClient;
let modelKeyId: string;
/** An agent that is not always-on, so that it never answers a task. */
let clerk: string;
const workers: TestWorker[] = [];
/** The endings of the runs so far. */
const seen = new Set<Ending>();

beforeAll(async () => {
  model = await startScriptedModel();
  api = await startTestApi({ providers: { canaryprovider: model.url } });
  const operator = api.client(api.operatorKey);
  const company = { slug: 'canary-company', name: 'Canary Company' };
  const created = await expectStatus(201, operator.post('/v1/companies', company));
  admin = api.client(created.admin_key.token);
  const key = { name: 'canary model key', key: 'sk-canary-0123456789', provider: 'canaryprovider' };
  modelKeyId = (await expectStatus(201, admin.post('/v1/model-keys', key))).id;
  clerk = await addAgent('canary-clerk', false);
});
afterAll(async () => {
  for (const worker of workers) await worker.stop();
  await api.close();
  await model.stop();
});

async function addAgent(slug: string, alwaysOn = true, key = modelKeyId): Promise<string> {
  const model_ = alwaysOn ? { model: 'canary-model', model_key: key } : { always_on: false };
  const agent = { slug, name: `Canary ${slug}`, instructions: 'canary instructions', ...model_ };
  return (await expectStatus(201, admin.post('/v1/agents', agent))).id;
}

interface Scene {
  readonly room: string;
  readonly agent: string;
  readonly slug: string;
}

let scenes = 0;
/** Creates a room with one agent, so that no scene affects another. */
async function openScene(options: { rights?: object; onCrash?: string; key?: string } = {}): Promise<Scene> {
  const slug = `canary-${(scenes += 1)}`;
  const agent = await addAgent(slug, true, options.key);
  const room = await expectStatus(
    201,
    admin.post('/v1/rooms', { name: `Canary room ${scenes}`, on_crash: options.onCrash ?? 'stop' }),
  );
  const roster = `/v1/rooms/${room.id}/roster`;
  await expectStatus(201, admin.post(roster, { agent, rights: options.rights ?? GO }));
  await expectStatus(201, admin.post(roster, { agent: clerk, rights: GO }));
  return { room: room.id, agent, slug };
}

async function startWorker(options: { timeouts?: Partial<RunTimeouts>; failIn?: string } = {}): Promise<TestWorker> {
  const failure = (): Error => new Error('canary failure of a driver: INSERT INTO messages VALUES (canary text)');
  const worker = await startTestWorker(api, {
    dispatch: false,
    ...(options.timeouts === undefined ? {} : { timeouts: options.timeouts }),
    deps: {
      logFailure: () => undefined,
      ...(options.failIn === undefined ? {} : { db: failingIn(api.db, options.failIn, failure) }),
    },
  });
  workers.push(worker);
  return worker;
}

/** Wakes the agent of a scene with a message, or with a task. */
async function wake(scene: Scene, worker: TestWorker, as: 'message' | 'task' = 'message'): Promise<string> {
  const path = `/v1/rooms/${scene.room}/events`;
  if (as === 'message') {
    const { id } = await expectStatus(201, admin.post(path, { type: 'message', text: `@${scene.slug} canary text` }));
    await worker.dispatch();
    return id;
  }
  const task = { type: 'task', to: scene.slug, goal: 'canary goal', acceptance_criteria: ['canary criterion'] };
  const { id } = await expectStatus(201, admin.post(path, task));
  await worker.dispatch();
  return (await api.db.task.findUniqueOrThrow({ where: { id } })).cardMessageId;
}

/** What Temporal holds of every execution of this workflow id. */
async function heldOf(workflowId: string): Promise<string> {
  const { client } = workers[0] as TestWorker;
  const texts: string[] = [];
  for await (const execution of client.workflow.list({ query: `WorkflowId = '${workflowId}'` })) {
    const { memo, searchAttributes, typedSearchAttributes } = execution;
    texts.push(await readableExecution(client, workflowId, execution.runId));
    texts.push(JSON.stringify({ memo, searchAttributes, typedSearchAttributes }));
  }
  return texts.join('\n');
}

/** Fails unless the run of this message has this ending, and Temporal holds its execution without any content. */
async function expectNoContent(messageId: string, ending: Ending): Promise<string> {
  const run = await closedRun(api.db, messageId);
  expect(run.ending).toBe(ending);
  seen.add(ending);
  const held = await until('the execution to be over and listed', async () => {
    const text = await heldOf(run.workflowId);
    return /EVENT_TYPE_WORKFLOW_EXECUTION_(COMPLETED|TERMINATED)/.test(text) && text;
  });
  expect(held).toContain(run.agentId);
  expect(MARK.exec(held)?.input?.slice(Math.max(0, held.search(MARK) - 200), held.search(MARK) + 200)).toBeUndefined();
  return run.workflowId;
}

const everything = (task?: string): ScriptedAnswer =>
  answer.reply({
    reply: 'canary reply',
    memory: { category: 'fact', content: 'canary memory', tags: ['canarytag'], visibility: 'shared' },
    task_updates: task === undefined ? [] : [{ task, state: 'done', result: 'canary result' }],
    tasks_to_send: [
      {
        to: 'canary-clerk',
        goal: 'canary subgoal',
        acceptance_criteria: ['canary'],
        priority: 'normal',
        deadline: null,
      },
    ],
  });

/** A provider error with marked content in every field. */
const errorBody = { error: { message: 'canary error', type: 'canary_type', code: 'canary_code', param: 'canary' } };
const canaryHeaders = { 'x-request-id': 'canary-request', 'content-type': 'application/json' };
const fails = (status: number, headers: Record<string, string> = {}): ScriptedAnswer =>
  answer.raw(status, JSON.stringify(errorBody), { ...canaryHeaders, ...headers });

test('a marker that is planted is found: in an input, a summary, a memo, a header and a failure', async () => {
  const worker = await startWorker();
  for (const [field, planted] of Object.entries({
    input: { args: [{ agent: 'canary', message: 'none' }] },
    summary: { args: [{ agent: 'a', message: 'b' }], staticSummary: 'canary' },
    details: { args: [{ agent: 'a', message: 'b' }], staticDetails: 'canary' },
    memo: { args: [{ agent: 'a', message: 'b' }], memo: { note: 'canary' } },
  })) {
    const workflowId = `planted/${randomBytes(6).toString('hex')}`;
    const options = { workflowId, taskQueue: 'unused', ...planted };
    const handle = await worker.client.workflow.start('agentRun', options);
    await handle.terminate();
    const held = await until('the planted execution to be listed', async () => (await heldOf(workflowId)) || false);
    expect(`${field}: ${MARK.test(held)}`).toBe(`${field}: true`);
  }
});

test('endings of a run whose provider answers: replied by message and by task, silent, not allowed', async () => {
  const worker = await startWorker();
  const scene = await openScene();
  model.script(everything());
  await expectNoContent(await wake(scene, worker), 'replied');

  const tasked = await openScene();
  model.respond(async () => {
    const task = await api.db.task.findFirstOrThrow({ where: { recipientAgentId: tasked.agent } });
    return everything(task.id);
  });
  await expectNoContent(await wake(tasked, worker, 'task'), 'replied');
  model.respond(() => 'ok');

  model.script(
    answer.reply({ reply: null, memory: { category: 'fact', content: 'canary', tags: [], visibility: 'private' } }),
  );
  await expectNoContent(await wake(await openScene(), worker), 'silent');

  model.script(everything());
  const refused = await openScene({ rights: { ...GO, reply: 'refuse' } });
  await expectNoContent(await wake(refused, worker), 'not_allowed');
});

test.each<[string, Ending, ScriptedAnswer[]]>([
  ['a key that is refused', 'refused', [fails(401)]],
  ['a model that is unknown', 'refused', [fails(404)]],
  ['a request that is malformed', 'refused', [fails(400)]],
  ['a redirect', 'refused', [answer.redirect('https://canary.example/v1')]],
  ['a wait that is too long', 'busy', [fails(429, { 'retry-after': '60' })]],
  ['three failures', 'busy', [fails(503, { 'retry-after': '0' }), fails(500, { 'retry-after': '0' }), fails(502)]],
  [
    'a page, a broken body and a reset, and then a reply',
    'replied',
    [
      answer.with(answer.html(503, '<title>canary page</title>'), { headers: { 'retry-after': '0' } }),
      answer.with(answer.truncatedJson('canary cut'), {
        headers: { 'retry-after': '0', 'content-type': 'application/json' },
      }),
      answer.reply('canary reply'),
    ],
  ],
  ['a reply that breaks the schema', 'failed', [answer.reply('{"reply": 7, "memory": "canary"}')]],
  ['a reply that was cut off', 'failed', [answer.reply('canary', { finishReason: 'length' })]],
  ['a reply with nothing in it', 'failed', [answer.reply('')]],
  ['a reply that is far too long', 'failed', [answer.reply('canary '.repeat(6_000))]],
])('a provider that gives %s: %s', async (_, ending, answers) => {
  const worker = workers[0] ?? (await startWorker());
  // The key's own state would suppress the next wake.
  await api.db.$executeRaw`UPDATE model_keys SET rejected_version = NULL`;
  model.script(...answers);
  await expectNoContent(await wake(await openScene(), worker), ending);
  await api.db.$executeRaw`UPDATE model_keys SET rejected_version = NULL`;
});

test('internal failures whose errors contain content, in every activity after the claim', async () => {
  for (const [failIn, ending] of [
    ['callModel', 'failed'],
    ['postReply', 'failed'],
    ['writeMemory', 'partial'],
    ['updateTask', 'partial'],
    ['sendTask', 'partial'],
  ] as const) {
    const worker = await startWorker({ failIn });
    const scene = await openScene();
    model.respond(async () => {
      const task = await api.db.task.findFirst({ where: { recipientAgentId: scene.agent } });
      return everything(task?.id);
    });
    await expectNoContent(await wake(scene, worker, 'task'), ending);
  }
  model.respond(() => 'ok');
});

test('a model key that no master key opens: the failure names no key', async () => {
  const worker = await startWorker();
  const lost = createSecretBox([{ id: 'canary', key: randomBytes(32) }]);
  const { id } = await expectStatus(
    201,
    admin.post('/v1/model-keys', { name: 'canary lost', key: 'sk-canary-lost-0123', provider: 'canaryprovider' }),
  );
  const { baseUrl } = await api.db.modelKey.findUniqueOrThrow({ where: { id } });
  const sealedSecret = lost.seal('sk-canary-lost', modelKeyBinding(id, baseUrl));
  await api.db.modelKey.update({ where: { id }, data: { sealedSecret } });
  await expectNoContent(await wake(await openScene({ key: id }), worker), 'failed');
});

test('a cancelled run, a run past its limit, a terminated run, and a fenced copy', async () => {
  const worker = await startWorker();
  const cancelled = await openScene();
  // The same answer for every request, not a script: a request may be aborted before it is sent, and its scripted answer
  // would be left for the next run.
  const held = answer.hold('canary late');
  model.respond(() => held);
  const messageId = await wake(cancelled, worker);
  const { workflowId } = await until('the claim', () => api.db.run.findFirst({ where: { messageId } }));
  await worker.client.workflow.getHandle(workflowId).cancel();
  await expectNoContent(messageId, 'cancelled');
  held.release();

  const slow = await startWorker({ timeouts: { limitMs: 1_500 } });
  const never = answer.hold('canary never');
  model.respond(() => never);
  await expectNoContent(await wake(await openScene(), slow), 'timed_out');
  never.release();

  const lost = answer.hold('canary lost');
  model.respond(() => lost);
  const sent = model.requests.length;
  const lostMessage = await wake(await openScene(), worker);
  const run = await until('the claim', () => api.db.run.findFirst({ where: { messageId: lostMessage } }));
  await model.waitForRequests(sent + 1);
  await worker.client.workflow.getHandle(run.workflowId).terminate();
  await api.db.$executeRaw`UPDATE runs SET due_at = clock_timestamp() - interval '1 second' WHERE id = ${run.id}`;
  await reconcileOnce({
    db: api.db,
    client: worker.client,
    taskQueue: worker.taskQueue,
    timeLimitMs: 30_000,
    times: RECONCILER_TIMES,
    onAction: () => undefined,
  });
  await expectNoContent(lostMessage, 'lost');
  lost.release();

  model.respond(() => 'ok');
  model.script(everything());
  const reset = await wake(await openScene(), worker);
  const resetId = await expectNoContent(reset, 'replied');
  const copied = worker.client.workflow.getHandle(resetId, await resetExecution(worker.client, resetId));
  expect(await copied.result()).toMatchObject({ result: 'fenced' });
  await expectNoContent(reset, 'replied');
});

test('a held action: approved, declined, expired', async () => {
  const worker = await startWorker();
  const hold = { ...GO, reply: 'hold' };
  for (const [outcome, ending] of [
    ['approve', 'replied'],
    ['decline', 'declined'],
    ['expire', 'expired'],
  ] as const) {
    model.script(everything());
    const messageId = await wake(await openScene({ rights: hold }), worker);
    const run = await until('the run to park', () =>
      api.db.run.findFirst({ where: { messageId, parkedAt: { not: null } } }),
    );
    const action = await api.db.heldAction.findFirstOrThrow({ where: { runId: run.id } });
    if (outcome === 'expire') {
      await api.db.$executeRaw`
        UPDATE held_actions SET opened_at = opened_at - interval '80 hours', expires_at = clock_timestamp()
        WHERE id = ${action.id}`;
      await expireHeldActions(api.db, 10);
    } else {
      const decision = { decision: outcome, hash: action.sha256 };
      await expectStatus(200, admin.post(`/v1/held-actions/${action.id}/decision`, decision));
    }
    await worker.signal();
    await expectNoContent(messageId, ending);
  }
});

test('the scenes above cover every ending', () => {
  expect([...ENDINGS].filter((ending) => !seen.has(ending))).toEqual([]);
});
