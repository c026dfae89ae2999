// `npm run doctor` as a command: its exit codes and its two forms of output.

import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { COMPILED } from '../support/compiled';
import { temporalAddress } from '../support/run-waits';
import { createWorld, MASTER_KEYS, type World } from '../support/world';

const DOCTOR = join(COMPILED, 'worker', 'cli', 'main.js');
const execute = promisify(execFile);

let world: World;
let healthy: Record<string, string>;

beforeAll(async () => {
  world = await createWorld({ modelUrl: 'http://127.0.0.1:9/v1' });
  healthy = {
    DATABASE_URL: world.url,
    TEMPORAL_ADDRESS: temporalAddress(),
    TEMPORAL_NAMESPACE: 'default',
    MASTER_KEYS,
  };
});
afterAll(() => world.close());

test('the exit code is 0 without problems, 1 with a problem and 2 for a wrong option, and --json prints JSON', async () => {
  const run = async (env: Record<string, string>, ...args: string[]) => {
    const given = { PATH: process.env['PATH'], DATA_FOLDER: '/nowhere', ...env };
    return execute(process.execPath, [DOCTOR, 'doctor', ...args], { env: given }).then(
      ({ stdout }) => ({ code: 0, stdout }),
      (error: { code: number; stdout: string }) => ({ code: error.code, stdout: error.stdout }),
    );
  };
  const well = await run(healthy, '--json');
  expect(well.code).toBe(0);
  expect(JSON.parse(well.stdout)).toMatchObject({ ok: true, findings: expect.arrayContaining([]) });
  const ill = await run({ ...healthy, TEMPORAL_NAMESPACE: 'nowhere' });
  expect(ill.code).toBe(1);
  expect(ill.stdout).toMatch(/^WRONG {2}temporal: reachable/m);
  expect((await run(healthy, '--unknown')).code).toBe(2);
});
