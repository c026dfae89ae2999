// `npm run rotate-keys` as a process: its output, its exit codes, and that every secret is readable after a kill.

import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { MasterKey } from '../../workflows/policy/secret-box';
import { openDataFolder } from '../../worker/local/data-folder';
import { announceServices } from '../../worker/local/running';
import { COMPILED } from '../support/compiled';
import { newMasterKey, openSealedSecrets, type SealedSecrets } from '../support/sealed-secrets';

const CLI = join(COMPILED, 'worker', 'cli', 'main.js');
const NOWHERE = 'postgres://127.0.0.1:1/none';

const OLD = newMasterKey('old');
const NEW = newMasterKey('new');
const LOST = newMasterKey('lost');

let stored: SealedSecrets;
let db: SealedSecrets['db'];
let store: SealedSecrets['store'];
let openAll: SealedSecrets['openAll'];

beforeEach(async () => {
  stored = await openSealedSecrets();
  ({ db, store, openAll } = stored);
});
afterEach(() => stored.close());

describe('the command', () => {
  /** Runs `npm run rotate-keys` with this environment. */
  function run(env: Record<string, string>, onLine: (line: string, kill: () => void) => void = () => undefined) {
    if (!existsSync(CLI)) throw new Error(`${CLI} is missing: run npm run build:all`);
    const child = spawn(process.execPath, [CLI, 'rotate-keys'], {
      env: { DATA_FOLDER: '/nowhere', ...env },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    const output = { out: '', err: '' };
    child.stdout.on('data', (chunk: Buffer) => {
      output.out += chunk.toString();
      onLine(output.out, () => void child.kill('SIGKILL'));
    });
    child.stderr.on('data', (chunk: Buffer) => void (output.err += chunk.toString()));
    return new Promise<{ code: number | null; out: string; err: string }>((resolve) => {
      child.once('close', (code) => resolve({ code, ...output }));
    });
  }
  const written = (...keys: MasterKey[]): string =>
    keys.map(({ id, key }) => `${id}:${key.toString('base64')}`).join(',');

  test('exits 0 when every secret is sealed under the first key, and prints no key and no secret', async () => {
    const secrets = await store(3, OLD);
    const { code, out, err } = await run({ DATABASE_URL: stored.url, MASTER_KEYS: written(NEW, OLD) });
    expect([code, err]).toEqual([0, '']);
    expect(out).toMatch(/3 resealed, 0 to go\nNothing is sealed under old: it can be dropped from MASTER_KEYS\n$/);
    for (const hidden of [...secrets.values(), NEW.key.toString('base64'), OLD.key.toString('base64')]) {
      expect(out).not.toContain(hidden);
    }
    expect(await openAll(NEW)).toEqual(secrets);
  });

  test('exits 1 and names the missing master key; secrets of other keys are resealed', async () => {
    await store(1, LOST);
    await store(2, OLD);
    const { code, out, err } = await run({ DATABASE_URL: stored.url, MASTER_KEYS: written(NEW, OLD) });
    expect(code).toBe(1);
    expect(out).toContain('master key lost');
    expect(out).toContain('2 resealed, 1 to go');
    expect(err).toMatch(/^Not sealed under new: 1\./);
  });

  test('uses the database and the master keys of the running local services, but not their keys with another database', async () => {
    const parent = await mkdtemp(join(tmpdir(), 'durable-room-rotate-'));
    const folder = await openDataFolder(join(parent, 'data'));
    try {
      await folder.secret('master-keys', () => written(NEW, OLD));
      await announceServices(folder, { databaseUrl: stored.url, temporal: null });
      const secrets = await store(2, OLD);
      expect((await run({ DATA_FOLDER: folder.path })).out).toContain('2 resealed, 0 to go');
      expect(await openAll(NEW)).toEqual(secrets);
      const elsewhere = await run({ DATA_FOLDER: folder.path, DATABASE_URL: NOWHERE });
      expect([elsewhere.code, elsewhere.err]).toEqual([1, expect.stringContaining('master keys: none given')]);
    } finally {
      await folder.release();
      await rm(parent, { recursive: true, force: true });
    }
  });

  test('after a kill halfway every secret can be opened, and the next run finishes the rotation', async () => {
    const secrets = await store(250, OLD);
    const env = { DATABASE_URL: stored.url, MASTER_KEYS: written(NEW, OLD) };
    const last = [...secrets.keys()].sort().at(-1) ?? '';
    await db.transaction(async (tx) => {
      // The third batch waits for this row lock.
      await tx.$queryRaw`SELECT id FROM model_keys WHERE id = ${last} FOR UPDATE`;
      const killed = await run(env, (out, kill) => {
        if (out.includes('200 resealed, 50 to go')) kill();
      });
      expect(killed.code).toBeNull();
    });
    expect(await openAll(NEW, OLD)).toEqual(secrets);
    const { code, out } = await run(env);
    expect([code, out.split('\n')[0]]).toEqual([0, '250 secrets, 50 of them not sealed under new']);
    expect(await openAll(NEW)).toEqual(secrets);
  });

  test.each([
    ['no database', {}, /DATABASE_URL is not set/],
    ['no master key', { DATABASE_URL: NOWHERE }, /master keys: none given/],
    ['a broken master key', { DATABASE_URL: NOWHERE, MASTER_KEYS: 'nonsense' }, /expected "id:base64"/],
    ['no database server', { DATABASE_URL: NOWHERE, MASTER_KEYS: written(NEW) }, /127\.0\.0\.1:1/],
  ])('with %s it exits 1 and prints one sentence', async (_what, env, message) => {
    const { code, out, err } = await run(env);
    expect([code, out]).toEqual([1, '']);
    expect(err).toMatch(message);
    expect(err).not.toMatch(/^\s+at /m);
  });
});
