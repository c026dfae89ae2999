// Model keys are stored, and real processes run every failure path of the model call. Then histories, logs, answers, room
// events, health answers and the whole database are searched for the keys.

import { randomBytes } from 'node:crypto';
import { Client, Connection } from '@temporalio/client';
import pg from 'pg';
import { createClient, expectStatus, type ApiClient, type Json } from '../support/api';
import { CANARY_PATHS } from '../support/canary-paths';
import { dumpDatabase, findSecrets } from '../support/canary-search';
import { createTestDatabase, type TestDatabase } from '../support/database';
import { endLogged, startLogged, type LoggedProcess } from '../support/logged-process';
import { temporalAddress, until } from '../support/run-waits';
import { startScriptedModel, type ScriptedModel } from '../support/scripted-model-server';

const random = (): string => randomBytes(15).toString('base64url');
const PLAIN = `sk-canary-${random()}`;
const SPECIAL = `sk-can"ary\\/+%20&=<${random()}>'${random()}`;
/** Sent in invalid requests and never stored. */
const MISTYPED = `sk-mistyped-${random()}`;
const SECRETS = [PLAIN, SPECIAL, MISTYPED];

const OPERATOR_KEY = randomBytes(24).toString('hex');
const masterKey = (id: string): string => `${id}:${randomBytes(32).toString('base64')}`;
const [OLD, NEW, STRANGER] = [masterKey('old'), masterKey('new'), masterKey('stranger')];

let database: TestDatabase;
let model: ScriptedModel;
let temporal: Connection;
let client: Client;
let api: LoggedProcess;
let admin: ApiClient;
let guest: ApiClient;
let room: string;
const taskQueue = `test-${randomBytes(6).toString('hex')}`;
/** Every answer of the API, with its headers. */
const answers: unknown[] = [];
const processes: Record<string, LoggedProcess> = {};
const health: Record<string, string> = {};

beforeAll(async () => {
  database = await createTestDatabase({ migrated: true });
  model = await startScriptedModel({
    respond: (request) => {
      const key = (request.headers.authorization ?? '').replace('Bearer ', '');
      return CANARY_PATHS[(request.body as Json).model]?.(key) ?? 'ok';
    },
  });
  temporal = await Connection.connect({ address: temporalAddress() });
  client = new Client({ connection: temporal, namespace: 'default' });
  api = startApi('api', OLD);
  const { port } = await api.ready;
  const connect = (token: string): ApiClient => recorded(`http://127.0.0.1:${port}`, token);
  const operator = connect(OPERATOR_KEY);
  const make = async (name: string): Promise<ApiClient> =>
    connect((await expectStatus(201, operator.post('/v1/companies', { name }))).admin_key.token);
  [admin, guest] = [await make('Larkspur'), await make('Tamarack')];
  room = `/v1/rooms/${(await expectStatus(201, admin.post('/v1/rooms', { name: 'Launch' }))).id}`;
  const { code } = await expectStatus(201, admin.post(`${room}/invitations`));
  await expectStatus(201, guest.post(`${room}/members`, { code }));
});
afterAll(async () => {
  await endLogged();
  await temporal.close();
  await model.stop();
  await database.drop();
});

const COMMON = { LOG_LEVEL: 'debug', TASK_QUEUE: taskQueue };

function startApi(name: string, masterKeys: string): LoggedProcess {
  return (processes[name] = startLogged('api/main.js', {
    ...COMMON,
    DATABASE_URL: database.url,
    MASTER_KEYS: masterKeys,
    OPERATOR_KEY,
    API_PORT: '0',
    MODEL_PROVIDERS: `scripted=${model.url}`,
    MODEL_ALLOWED_HOSTS: model.origin.replace('http://', ''),
  }));
}

async function startWorker(
  name: string,
  masterKeys: string,
  crash: Record<string, string> = {},
): Promise<LoggedProcess> {
  const program = 'CRASH_POINT' in crash ? 'test/support/crash-worker.js' : 'worker/main.js';
  const worker = (processes[name] = startLogged(program, {
    ...COMMON,
    ...crash,
    DATABASE_URL: database.url,
    MASTER_KEYS: masterKeys,
    MODEL_ALLOWED_HOSTS: model.origin.replace('http://', ''),
    TEMPORAL_ADDRESS: temporalAddress(),
    WORKER_PORT: '0',
    RUN_TIME_LIMIT_SECONDS: '120',
    RUN_MODEL_TIMEOUT_SECONDS: '5',
    RUN_HEARTBEAT_SECONDS: '5',
    RECONCILE_SECONDS: '1',
  }));
  const { port } = await worker.ready;
  // A worker with a crash point may die at once, in a run that the previous worker left.
  if ('CRASH_POINT' in crash) return worker;
  for (const path of ['/readyz', '/healthz', '/metrics']) {
    health[`${name} ${path}`] = await (await fetch(`http://127.0.0.1:${port}${path}`)).text();
  }
  return worker;
}

/** A client that records every answer. */
function recorded(url: string, token: string): ApiClient {
  const plain = createClient(url, token);
  return Object.fromEntries(
    Object.entries(plain).map(([name, send]) => [
      name,
      async (...args: unknown[]) => {
        const answered = await (send as (...given: unknown[]) => ReturnType<ApiClient['get']>)(...args);
        answers.push(answered.text, Object.fromEntries(answered.headers));
        return answered;
      },
    ]),
  ) as unknown as ApiClient;
}

interface TestedAgent {
  readonly path: string;
  readonly slug: string;
  readonly key: string;
}

let agents = 0;

/** Adds an agent to the roster, with its own key for the scripted model. The path is the name of its model. */
async function addAgent(path: string, secret: string, where: object): Promise<TestedAgent> {
  agents += 1;
  const slug = `agent-${agents}`;
  const key = await expectStatus(201, admin.post('/v1/model-keys', { name: path, key: secret, ...where }));
  const agent = await expectStatus(
    201,
    admin.post('/v1/agents', { slug, name: slug, model: path, model_key: key.id, instructions: 'Be brief.' }),
  );
  await expectStatus(201, admin.post(`${room}/roster`, { agent: agent.id }));
  return { path, slug, key: key.id };
}

/** Wakes each agent with its own message. */
async function wake(slugs: readonly string[]): Promise<void> {
  for (const slug of slugs) {
    await expectStatus(201, admin.post(`${room}/events`, { type: 'message', text: `@${slug} hello` }));
  }
}

/** The wakes, runs and key tests that have not ended, as text for a failure message. */
async function openWork(): Promise<string[]> {
  const { rows } = await withDatabase((db) =>
    db.query<{ open: string }>(
      `SELECT concat_ws(' ', 'wake', state, a.model) AS open
         FROM wakes w JOIN agents a ON a.id = w.agent_id WHERE state IN ('pending', 'delivered')
       UNION ALL
       SELECT concat_ws(' ', 'run', a.model, 'requests:',
                        (SELECT string_agg(outcome, ', ') FROM model_requests q WHERE q.run_id = r.id))
         FROM runs r JOIN agents a ON a.id = r.agent_id WHERE state = 'open'
       UNION ALL
       SELECT concat_ws(' ', 'key test', state) FROM model_key_tests WHERE state IN ('pending', 'running')`,
    ),
  );
  return rows.map(({ open }) => open);
}

async function waitForAllWork(): Promise<void> {
  let open: string[] = [];
  await until('all work to end', async () => (open = await openWork()).length === 0).catch((error: Error) => {
    throw new Error(`${error.message}; open: ${open.join('; ')}`);
  });
}

async function withDatabase<T>(work: (db: pg.Client) => Promise<T>): Promise<T> {
  const db = new pg.Client({ connectionString: database.url });
  await db.connect();
  try {
    return await work(db);
  } finally {
    await db.end();
  }
}

async function claimedWorkflows(): Promise<string[]> {
  const { rows } = await withDatabase((db) =>
    db.query<{ id: string }>('SELECT workflow_id AS id FROM agent_run_locks'),
  );
  return rows.map(({ id }) => id);
}

/** All data of these workflows in Temporal: events, failures, memos, search attributes and pending activities. */
async function readTemporal(workflowIds: readonly string[]): Promise<Record<string, unknown>> {
  const read: Record<string, unknown> = {};
  for (const id of workflowIds) {
    const handle = client.workflow.getHandle(id);
    read[`history ${id}`] = await handle.fetchHistory();
    read[`description ${id}`] = await handle.describe();
  }
  return read;
}

/** Reads everything that a company can read, so that the answers are recorded. */
async function readEverything(by: ApiClient): Promise<void> {
  const follow = async (path: string): Promise<Json[]> => {
    const rows: Json[] = [];
    for (let cursor = ''; ;) {
      const page = await expectStatus(200, by.get(`${path}?limit=200${cursor && `&cursor=${cursor}`}`));
      rows.push(...page.data);
      if (!page.next_cursor) return rows;
      cursor = encodeURIComponent(page.next_cursor);
    }
  };
  for (const run of await follow('/v1/runs')) await by.get(`/v1/runs/${run.id}`);
  for (const one of await follow('/v1/wakes')) await by.get(`/v1/wakes/${one.id}`);
  for (const list of ['keys', 'model-keys', 'agents', 'rooms']) await follow(`/v1/${list}`);
  for (const list of ['messages', 'tasks', 'memory', 'members', 'roster']) await by.get(`${room}/${list}?limit=200`);
  for (let after = 0; ;) {
    const { data } = await expectStatus(200, by.get(`${room}/events?after=${after}&limit=200`));
    if (data.length === 0) break;
    after = data.at(-1).seq;
  }
}

describe('the search finds a key', () => {
  const forms = (found: readonly string[]) => new Set(found.map((match) => match.split(':')[0]));

  test.each(['text', 'json', 'jsonb', 'bytea', 'text[]'])('in a column of type %s', async (type) => {
    const value = { text: SPECIAL, json: JSON.stringify(SPECIAL), jsonb: `{"a":[${JSON.stringify(SPECIAL)}]}` }[type];
    await withDatabase(async (db) => {
      await db.query(`CREATE TABLE planted (held ${type})`);
      await db.query(`INSERT INTO planted VALUES ($1)`, [
        value ?? (type === 'bytea' ? Buffer.from(SPECIAL) : [SPECIAL]),
      ]);
    });
    const found = findSecrets(await dumpDatabase(database.url), SECRETS);
    await withDatabase((db) => db.query('DROP TABLE planted'));
    expect(forms(found)).toEqual(new Set(['table public.planted']));
  });

  test('in the input, the memo and the termination reason of a workflow', async () => {
    const start = (workflowId: string, options: object) =>
      client.workflow.start('planted', { taskQueue: `${taskQueue}-no-worker`, workflowId, ...options });
    const input = await start(`${taskQueue}-input`, { args: [{ key: SPECIAL }] });
    const memo = await start(`${taskQueue}-memo`, { memo: { note: SPECIAL } });
    const end = await start(`${taskQueue}-end`, {});
    await Promise.all([input.terminate(), memo.terminate(), end.terminate(`ended for ${SPECIAL}`)]);
    const ids = [input, memo, end].map(({ workflowId }) => workflowId);
    const found = forms(findSecrets(await readTemporal(ids), SECRETS));
    expect([...found]).toEqual(expect.arrayContaining(ids.map((id) => `history ${id}`)));
    expect([...found]).toContain(`description ${memo.workflowId}`);
  });

  test('in the output of a process', async () => {
    const broken = startLogged('api/main.js', {});
    await broken.ended;
    expect(findSecrets({ log: broken.written() }, ['configuration is not usable'])).not.toEqual([]);
  });

  test('in an answer and its headers', async () => {
    const before = answers.length;
    // The answer and the log contain the request id of the client.
    const planted = `req-${random()}`;
    await admin.send('GET', '/v1/keys', { headers: { 'x-request-id': planted } });
    expect(findSecrets({ answers: answers.slice(before) }, [planted])).toContain('answers: secret 1, plain');
    await until('the log', () => Promise.resolve(findSecrets({ log: api.written() }, [planted]).length > 0));
  });
});

test('every failure path leaves no trace of the key', async () => {
  await withDatabase((db) =>
    db.query(`
      CREATE FUNCTION refuse_recording() RETURNS trigger LANGUAGE plpgsql AS $$
      BEGIN RAISE EXCEPTION 'can not record %', NEW; END $$;
      CREATE TRIGGER refuse_recording BEFORE UPDATE ON model_requests FOR EACH ROW WHEN (NEW.http_status = 418)
        EXECUTE FUNCTION refuse_recording()`),
  );
  // 1. Runs and key tests, at the operator's address and at the key owner's address.
  let worker = await startWorker('worker', OLD);
  const added: TestedAgent[] = [];
  for (const path of Object.keys(CANARY_PATHS)) {
    added.push(await addAgent(path, PLAIN, { provider: 'scripted' }));
    added.push(await addAgent(path, SPECIAL, { base_url: model.url }));
  }
  added.push(await addAgent('ok', PLAIN, { base_url: `https://${randomBytes(8).toString('hex')}.invalid/v1` }));
  await wake(added.map(({ slug }) => slug));
  await waitForAllWork();
  for (const { key, path } of added) {
    // The key test of this path would take half a minute and shows nothing that its run does not show.
    if (path !== 'headers-only') await expectStatus(202, admin.post(`/v1/model-keys/${key}/test`));
  }
  await waitForAllWork();
  // Wakes that are suppressed because their keys were refused.
  await wake(added.slice(0, 2).map(({ slug }) => slug));
  await waitForAllWork();
  await worker.stop();

  // 2. Workers that die while they use the key, and one that continues their runs.
  const dying = await addAgent('malformed-400', SPECIAL, { provider: 'scripted' });
  for (const point of ['callModel:sent', 'callModel:reply_inside']) {
    worker = await startWorker(`worker that dies at ${point}`, OLD, { CRASH_POINT: point });
    await wake([dying.slug]);
    expect(await worker.ended).toBe('SIGKILL');
  }
  worker = await startWorker('worker after them', OLD);
  await waitForAllWork();
  await worker.stop();

  // 3. A worker without the master key.
  worker = await startWorker('worker without the key', STRANGER);
  await wake([dying.slug]);
  await expectStatus(202, admin.post(`/v1/model-keys/${dying.key}/test`));
  await waitForAllWork();
  await worker.stop();
  expect((await admin.get(`/v1/model-keys/${dying.key}`)).body.test.code).toBe('cannot_open');

  // 4. Key rotation without the old master key, and with it.
  const rotate = (name: string, keys: string): Promise<number | string> =>
    (processes[name] = startLogged('worker/cli/main.js', { DATABASE_URL: database.url, MASTER_KEYS: keys }, [
      'rotate-keys',
    ])).ended;
  expect(await rotate('rotation without the old key', `${NEW},${STRANGER}`)).toBe(1);
  expect(await rotate('rotation', `${NEW},${OLD}`)).toBe(0);

  // 5. Keys in invalid requests and in wrong parts of a request.
  for (const body of [
    { name: 'x', key: `${MISTYPED} ${MISTYPED}`, provider: 'scripted' },
    { name: 'x', key: MISTYPED, provider: MISTYPED },
    { name: 'x', key: MISTYPED, base_url: `https://user:${MISTYPED}@example.com/v1` },
    { name: 'x', key: MISTYPED, base_url: `https://example.com/v1?key=${MISTYPED}` },
    { name: 'x', key: MISTYPED, base_url: `https://10.0.0.1/${MISTYPED}` },
    { name: 'x', key: [MISTYPED], provider: 'scripted' },
    { name: 'x', [MISTYPED]: MISTYPED, key: MISTYPED, provider: 'scripted' },
    { name: 'x', key: `${MISTYPED}”`, provider: 'scripted' },
  ]) {
    expect((await admin.post('/v1/model-keys', body)).status).toBe(400);
  }
  const headers = { 'content-type': 'application/json' };
  expect((await admin.send('POST', '/v1/model-keys', { headers, body: `{"key":"${MISTYPED}",` })).status).toBe(400);
  expect((await admin.patch(`/v1/model-keys/${dying.key}`, { key: `a ${MISTYPED}` })).status).toBe(400);
  expect((await admin.get(`/v1/model-keys?key=${MISTYPED}`)).status).toBe(400);
  expect((await admin.get(`/v1/model-keys/${MISTYPED}`)).status).toBe(404);
  expect((await admin.post(`/v1/model-keys/${dying.key}/test`, { [MISTYPED]: 1 })).status).toBe(400);
  expect((await admin.send('GET', '/v1/keys', { headers: { authorization: `Bearer ${MISTYPED}` } })).status).toBe(401);
  expect((await admin.send('GET', '/v1/keys', { headers: { 'x-request-id': `${MISTYPED} x` } })).status).toBe(200);

  // Every path was taken with both keys.
  for (const path of Object.keys(CANARY_PATHS)) {
    const sent = model.requests.filter(({ body }) => (body as Json).model === path);
    const keys = new Set(sent.map(({ headers: { authorization } }) => authorization));
    expect([path, keys]).toEqual([path, new Set([`Bearer ${PLAIN}`, `Bearer ${SPECIAL}`])]);
  }

  // 6. A worker that has only the new master key can still open the key.
  model.respond(() => 'Hello.');
  worker = await startWorker('worker after the rotation', NEW);
  await wake([dying.slug]);
  await waitForAllWork();
  await worker.stop();
  expect(model.requests.at(-1)?.headers.authorization).toBe(`Bearer ${SPECIAL}`);
  expect((await admin.get('/v1/runs?order=desc&limit=1')).body.data[0].ending).toBe('replied');

  await readEverything(admin);
  await readEverything(guest);
  const { port } = await api.ready;
  for (const path of ['/readyz', '/healthz', '/metrics']) {
    health[`api ${path}`] = await (await fetch(`http://127.0.0.1:${port}${path}`)).text();
  }
  await api.stop();
  const sources: Record<string, unknown> = {
    answers,
    ...health,
    ...(await readTemporal(await claimedWorkflows())),
    ...(await dumpDatabase(database.url)),
    ...Object.fromEntries(Object.entries(processes).map(([name, { written }]) => [`log of ${name}`, written()])),
  };

  // Proves that the search has enough data: each kind of source has its contents.
  expect(Object.keys(sources).filter((name) => name.startsWith('history ')).length).toBeGreaterThan(40);
  expect(processes['worker']?.written()).toContain('activity failed');
  expect(processes['worker without the key']?.written()).toMatch(/could not be opened/);
  expect(api.written().split('\n').length).toBeGreaterThan(100);
  expect(answers.length).toBeGreaterThan(500);
  expect(findSecrets(sources, ['Be brief.', 'not configured'])).not.toEqual([]);
  expect(findSecrets(sources, SECRETS)).toEqual([]);
});
