// The API as a process: its messages at the start, and how it stops.

import { spawn, type ChildProcess } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { request } from 'node:http';
import { join } from 'node:path';
import type { Readable } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { PROJECT_ROOT } from '../../worker/local/project-root';
import { COMPILED } from '../support/compiled';
import { createTestDatabase, type TestDatabase } from '../support/database';
import { createClient, expectStatus } from '../support/api';
import { openEvents } from '../support/event-source';
import { freePorts } from '../support/free-ports';

/** The compiled program: the child runs outside of jest and can't load TypeScript. */
const RUN_MAIN = `require(${JSON.stringify(join(COMPILED, 'api', 'main.js'))});`;

interface Ready {
  readonly type: 'ready';
  readonly port: number;
  readonly operatorKey?: string;
}

interface Running extends Launched {
  readonly ready: Ready;
  readonly url: string;
}

const children = new Set<ChildProcess>();
let database: TestDatabase;

/** The exit code of a stop during an endless request body. It takes as long as a stop may, so it runs beside the tests. */
let stoppedUnderEndlessBody: Promise<number | null>;

beforeAll(async () => {
  database = await createTestDatabase({ migrated: true });
  stoppedUnderEndlessBody = stopUnderEndlessBody();
  // The test that awaits it reports the error.
  stoppedUnderEndlessBody.catch(() => undefined);
});
afterAll(async () => {
  for (const child of children) child.kill('SIGKILL');
  await database.drop();
});

interface Launched {
  readonly child: ChildProcess;
  readonly exited: Promise<number | null>;
  stdout(): string;
  stderr(): string;
}

function launch(env: Record<string, string>, forked = true): Launched {
  const child = spawn(process.execPath, ['-e', RUN_MAIN], {
    cwd: PROJECT_ROOT,
    env: { PATH: process.env['PATH'], API_PORT: '0', ...env },
    stdio: ['ignore', 'pipe', 'pipe', ...(forked ? (['ipc'] as const) : [])],
  });
  const [stdout, stderr] = [child.stdout as Readable, child.stderr as Readable];
  children.add(child);
  let [out, err] = ['', ''];
  stdout.on('data', (chunk: Buffer) => (out += chunk.toString()));
  stderr.on('data', (chunk: Buffer) => (err += chunk.toString()));
  // The 'close' event of the child itself is never sent after its IPC channel was disconnected here.
  const exited = Promise.all([once(child, 'exit'), once(stdout, 'close'), once(stderr, 'close')]).then(([[code]]) => {
    children.delete(child);
    return code as number | null;
  });
  return { child, exited, stdout: () => out, stderr: () => err };
}

const MASTER_KEYS = `k1:${randomBytes(32).toString('base64')}`;

async function start(env: Record<string, string> = {}): Promise<Running> {
  const launched = launch({ DATABASE_URL: database.url, MASTER_KEYS, ...env });
  const first = await Promise.race([once(launched.child, 'message'), launched.exited]);
  if (!Array.isArray(first)) throw new Error(`the API ended with ${first}: ${launched.stderr()}`);
  const ready = first[0] as Ready;
  return { ...launched, ready, url: `http://127.0.0.1:${ready.port}` };
}

test('the first start creates the operator’s key and sends it to its supervisor once, not to a log', async () => {
  const first = await start();
  const { operatorKey = '' } = first.ready;
  expect(operatorKey).toMatch(/^dr_operator_/);
  await expectStatus(200, createClient(first.url, operatorKey).get('/v1/companies'));
  await expectStatus(200, createClient(first.url).get('/readyz'));
  first.child.kill('SIGTERM');
  expect(await first.exited).toBe(0);
  // The parent process shows the key. If the API printed it too, it could reach a log.
  expect(first.stdout() + first.stderr()).not.toContain(operatorKey);

  const second = await start();
  expect(second.ready).toEqual({ type: 'ready', port: second.ready.port });
  expect(second.stdout()).toBe('');
  await expectStatus(200, createClient(second.url, operatorKey).get('/v1/companies'));
  second.child.kill('SIGINT');
  expect(await second.exited).toBe(0);

  const configured = 'configured-operator-key-0123456789abcdef';
  const third = await start({ OPERATOR_KEY: configured });
  expect(third.ready.operatorKey).toBeUndefined();
  await expectStatus(200, createClient(third.url, configured).get('/v1/companies'));
  await expectStatus(401, createClient(third.url, operatorKey).get('/v1/companies'));
  // The API stops when its supervisor is gone.
  third.child.disconnect();
  expect(await third.exited).toBe(0);
  expect(third.stdout() + third.stderr()).not.toContain(configured);
});

test('without a supervisor the API prints the operator’s key to stdout once', async () => {
  const fresh = await createTestDatabase({ migrated: true });
  for (const shown of [1, 0]) {
    const alone = launch({ DATABASE_URL: fresh.url, MASTER_KEYS }, false);
    while (!alone.stderr().includes('the API is listening')) await sleep(50);
    alone.child.kill('SIGTERM');
    expect(await alone.exited).toBe(0);
    expect(alone.stdout().match(/dr_operator_[A-Za-z0-9_-]{43}/g) ?? []).toHaveLength(shown);
    expect(alone.stderr()).not.toContain('dr_operator_');
  }
  await fresh.drop();
});

test('a stop lets an open request finish and accepts no new one', async () => {
  const patient = { DATABASE_LOCK_TIMEOUT_MS: '60000', DATABASE_STATEMENT_TIMEOUT_MS: '60000' };
  const running = await start({ OPERATOR_KEY: 'o'.repeat(40), DATABASE_TRANSACTION_TIMEOUT_MS: '60000', ...patient });
  const holder = new pg.Client({ connectionString: database.url });
  await holder.connect();
  await holder.query('BEGIN');
  await holder.query('LOCK TABLE companies IN ACCESS EXCLUSIVE MODE');
  const answered = createClient(running.url, 'o'.repeat(40)).post('/v1/companies', { name: 'Late' });
  const isWaiting = async (): Promise<boolean> =>
    (await holder.query(`SELECT FROM pg_locks WHERE NOT granted AND relation = 'companies'::regclass`)).rows.length > 0;
  while (!(await isWaiting())) await sleep(20);
  running.child.kill('SIGTERM');
  running.child.kill('SIGTERM');
  const isOpen = (): Promise<boolean> =>
    createClient(running.url)
      .get('/healthz')
      .then(
        () => true,
        () => false,
      );
  while (await isOpen()) await sleep(20);
  await holder.query('COMMIT');
  await holder.end();
  expect((await answered).status).toBe(201);
  expect(await running.exited).toBe(0);
});

test('a stop ends open streams and does not wait for their clients', async () => {
  const operatorKey = 's'.repeat(40);
  const running = await start({ OPERATOR_KEY: operatorKey });
  const made = await expectStatus(
    201,
    createClient(running.url, operatorKey).post('/v1/companies', { name: 'Streaming' }),
  );
  const stream = await openEvents(`${running.url}/v1/feed`, made.admin_key.token);
  expect(stream.status).toBe(200);
  running.child.kill('SIGTERM');
  await stream.ended;
  expect(await running.exited).toBe(0);
});

async function stopUnderEndlessBody(): Promise<number | null> {
  // Its own database: the first start in the shared one belongs to a test.
  const own = await createTestDatabase({ migrated: true });
  const running = await start({ DATABASE_URL: own.url, OPERATOR_KEY: 'o'.repeat(40) });
  const slow = request(`${running.url}/v1/companies`, {
    method: 'POST',
    headers: {
      authorization: `Bearer ${'o'.repeat(40)}`,
      'content-type': 'application/json',
      'content-length': '1000',
    },
  });
  slow.on('error', () => undefined);
  slow.write('{');
  await sleep(300);
  running.child.kill('SIGTERM');
  const code = await running.exited;
  await own.drop();
  return code;
}

test('an endless request body does not prevent a stop', async () => {
  expect(await stoppedUnderEndlessBody).toBe(0);
});

test.each([
  ['DATABASE_URL', { DATABASE_URL: '' }],
  ['MASTER_KEYS', { MASTER_KEYS: 'k1:c2VjcmV0LWNhbmFyeQ==' }],
  ['OPERATOR_KEY', { OPERATOR_KEY: 'secret-canary' }],
])('the error for a wrong %s names the variable without its value', async (name, env) => {
  const launched = launch({ DATABASE_URL: database.url, MASTER_KEYS, ...env });
  expect(await launched.exited).toBe(1);
  expect(launched.stderr()).toContain(`${name}: expected`);
  expect(launched.stderr()).not.toMatch(/secret-canary|c2VjcmV0|\n\s+at /);
});

test('an unreachable database is reported in one line', async () => {
  const launched = launch({ DATABASE_URL: 'postgresql://user:secret-canary@127.0.0.1:1/db', MASTER_KEYS });
  expect(await launched.exited).toBe(1);
  expect(launched.stderr()).toContain('127.0.0.1:1/db can not be reached');
  expect(launched.stderr()).not.toMatch(/secret-canary|\n\s+at /);
});

test('a port in use is an error', async () => {
  const running = await start();
  const second = launch({ DATABASE_URL: database.url, MASTER_KEYS, API_PORT: String(running.ready.port) });
  expect(await second.exited).toBe(1);
  expect(second.stderr()).toContain('EADDRINUSE');
  running.child.kill('SIGTERM');
  expect(await running.exited).toBe(0);
});

describe('metrics', () => {
  test('are served only on their own port, labelled with the route template', async () => {
    const [port] = await freePorts(1);
    const api = await start({ API_METRICS_PORT: String(port), OPERATOR_KEY: 'o'.repeat(40) });
    const client = createClient(api.url, 'o'.repeat(40));
    await expectStatus(200, client.get('/v1/companies'));
    await expectStatus(404, client.get('/v1/companies/co_01h2xcejqtf2nbrexx3vqjhp41'));
    await expectStatus(404, client.get('/metrics'));
    const text = await (await fetch(`http://127.0.0.1:${port}/metrics`)).text();
    const countOf = (labels: string) =>
      text.match(new RegExp(`durable_room_http_request_seconds_count{${labels}} (\\d+)`))?.[1];
    expect(countOf('method="GET",route="/v1/companies",status="200"')).toBe('1');
    expect(countOf('method="GET",route="/v1/companies/:company",status="404"')).toBe('1');
    expect(countOf('method="GET",route="none",status="404"')).toBe('1');
    expect(text).not.toMatch(/co_01h2|oooooo/);
    api.child.kill('SIGTERM');
    expect(await api.exited).toBe(0);
  });

  test('are not served if no port is configured', async () => {
    const api = await start({ OPERATOR_KEY: 'o'.repeat(40) });
    await expectStatus(404, createClient(api.url, 'o'.repeat(40)).get('/metrics'));
    api.child.kill('SIGTERM');
    expect(await api.exited).toBe(0);
  });
});
