// Commands beside `npm start`: without configuration, doctor and explain use the services that run in the data folder. They
// ignore variables of the shell for another Temporal server, and report when no service runs.

import { execFile, spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { promisify } from 'node:util';
import { COMPILED } from '../support/compiled';

const execute = promisify(execFile);

let parent: string;
let start: ChildProcess;
let env: Record<string, string | undefined>;

beforeAll(async () => {
  parent = await mkdtemp(join(tmpdir(), 'durable-room-tools-'));
  env = {
    PATH: process.env['PATH'],
    HOME: parent,
    DATA_FOLDER: join(parent, 'data'),
    TEMPORAL_CLI_PATH: process.env['TEMPORAL_CLI_PATH'],
    API_PORT: '0',
    WORKER_PORT: '0',
    LOG_LEVEL: 'error',
    // Variables for another server. The local services must ignore them.
    TEMPORAL_API_KEY: 'tmprl-canarykey',
    TEMPORAL_TLS_SERVER_NAME: 'elsewhere.test',
  };
  start = spawn(process.execPath, [join(COMPILED, 'worker', 'local', 'start.js')], {
    env,
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  if (!start.stdout) throw new Error('npm start has no readable output');
  for await (const line of createInterface({ input: start.stdout })) if (line.includes('Ctrl-C stops')) return;
  throw new Error('npm start ended before it was up');
});
afterAll(async () => {
  if (start.exitCode === null) {
    start.kill('SIGTERM');
    await once(start, 'exit');
  }
  await rm(parent, { recursive: true, force: true });
});

async function run(command: 'doctor' | 'explain', ...args: string[]) {
  return execute(process.execPath, [join(COMPILED, 'worker', 'cli', 'main.js'), command, ...args], { env }).then(
    ({ stdout }) => ({ code: 0, stdout, stderr: '' }),
    (error: { code: number; stdout: string; stderr: string }) => error,
  );
}

test('doctor and explain work beside npm start without configuration, and report when no service runs', async () => {
  const well = await run('doctor');
  expect(well.stdout).toMatch(/All is well\.\n$/);
  expect(well.code).toBe(0);
  expect(await run('explain', 'run_unknown')).toMatchObject({ code: 1, stderr: 'there is no run run_unknown\n' });

  start.kill('SIGTERM');
  await once(start, 'exit');
  const ill = await run('doctor');
  expect(ill.code).toBe(1);
  expect(ill.stdout).toMatch(
    /no embedded PostgreSQL is running here[\s\S]*no embedded Temporal server is running here/,
  );
  expect(await run('explain', 'run_unknown')).toMatchObject({ code: 1, stderr: expect.stringContaining('is not set') });
});
