// Rotation of the master key: every secret is resealed under the first key, also after an interruption, beside a replaced
// secret, and without one of the keys.

import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { existsSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { connectDatabase, type Database } from '../../prisma/client';
import { rotateMasterKeys, type RotationOptions } from '../../prisma/key-rotation';
import { createSecretBox, type MasterKey, type SecretBox } from '../../workflows/policy/secret-box';
import { newId } from '../../prisma/store/db/ids';
import { modelKeyBinding, updateModelKey } from '../../prisma/store/model-keys/model-keys';
import { openDataFolder } from '../../worker/local/data-folder';
import { announceServices } from '../../worker/local/running';
import { InterceptedDatabase } from '../support/intercepted-database';
import { createTestDatabase, type TestDatabase } from '../support/database';
import { COMPILED } from '../support/compiled';

const CLI = join(COMPILED, 'worker', 'cli', 'main.js');
const NOWHERE = 'postgres://127.0.0.1:1/none';
const ADDRESS = 'https://api.example.com/v1';

const masterKey = (id: string): MasterKey => ({ id, key: randomBytes(32) });
const OLD = masterKey('old');
const NEW = masterKey('new');
const LOST = masterKey('lost');

let test_: TestDatabase;
let database: Database;
let db: Database;
const companyId = newId('co');

beforeEach(async () => {
  test_ = await createTestDatabase({ migrated: true });
  const timeouts = { lockTimeoutMs: 40_000, statementTimeoutMs: 50_000, transactionTimeoutMs: 60_000 };
  database = await connectDatabase(test_.url, { poolSize: 4, applicationName: 'durable-room-test', ...timeouts });
  db = database;
  await db.company.create({ data: { id: companyId, slug: 'larkspur', name: 'Larkspur' } });
});
afterEach(async () => {
  await database.close();
  await test_.drop();
});

/** Stores this many secrets, sealed under a master key, and returns what each was. */
async function store(count: number, under: MasterKey): Promise<Map<string, string>> {
  const box = createSecretBox([under]);
  const secrets = new Map(Array.from({ length: count }, () => [newId('mk'), randomBytes(12).toString('hex')]));
  await db.modelKey.createMany({
    data: [...secrets].map(([id, secret]) => ({
      id,
      companyId,
      name: 'main',
      provider: 'openai_compatible',
      baseUrl: ADDRESS,
      ownerSupplied: false,
      sealedSecret: box.seal(secret, modelKeyBinding(id, ADDRESS)),
    })),
  });
  return secrets;
}

/** What the stored secrets are, to whoever has only these master keys. */
async function openAll(...keys: MasterKey[]): Promise<Map<string, string>> {
  const box: SecretBox = createSecretBox(keys);
  const rows = await db.modelKey.findMany({ orderBy: { id: 'asc' } });
  return new Map(rows.map((row) => [row.id, box.open(row.sealedSecret, modelKeyBinding(row.id, row.baseUrl))]));
}

async function rotate(keys: readonly MasterKey[], options: Partial<RotationOptions> = {}) {
  const lines: string[] = [];
  const result = await rotateMasterKeys(db, keys, { log: (line) => void lines.push(line), ...options });
  return { ...result, lines };
}

test('seals every secret anew, in batches, says how far it is, and what can be dropped', async () => {
  const secrets = await store(25, OLD);
  const { lines, ...result } = await rotate([NEW, OLD], { batch: 10 });
  expect(result).toEqual({ resealed: 25, remaining: 0 });
  expect(lines).toEqual([
    '25 secrets, 25 of them not sealed under new',
    '10 resealed, 15 to go',
    '20 resealed, 5 to go',
    '25 resealed, 0 to go',
    'Nothing is sealed under old: it can be dropped from MASTER_KEYS',
  ]);
  expect(await openAll(NEW)).toEqual(secrets);
});

test('a revoked key is resealed too, and no version changes', async () => {
  const [id = ''] = [...(await store(1, OLD)).keys()];
  await db.modelKey.update({ where: { id }, data: { revokedAt: new Date(), version: 3, rejectedVersion: 3 } });
  await rotate([NEW, OLD]);
  expect((await openAll(NEW)).size).toBe(1);
  expect(await db.modelKey.findUnique({ where: { id } })).toMatchObject({ version: 3, rejectedVersion: 3 });
});

test('what is under the first key already is not touched', async () => {
  await store(3, NEW);
  const before = await db.modelKey.findMany({ orderBy: { id: 'asc' } });
  expect(await rotate([NEW, OLD])).toMatchObject({ resealed: 0, remaining: 0 });
  expect(await db.modelKey.findMany({ orderBy: { id: 'asc' } })).toEqual(before);
});

test('a key id that another begins with is another key', async () => {
  const longer = masterKey('new2');
  const secrets = await store(2, longer);
  expect(await rotate([NEW, longer])).toMatchObject({ resealed: 2, remaining: 0 });
  expect(await openAll(NEW)).toEqual(secrets);
});

test('stopped between batches, what is done stays, everything can be opened, and the next start does the rest', async () => {
  const secrets = await store(25, OLD);
  const stopped = rotate([NEW, OLD], { batch: 10, onBatch: () => Promise.reject(new Error('stopped')) });
  await expect(stopped).rejects.toThrow('stopped');
  expect(await openAll(NEW, OLD)).toEqual(secrets);
  const { lines } = await rotate([NEW, OLD], { batch: 10 });
  expect(lines[0]).toBe('25 secrets, 15 of them not sealed under new');
  expect(await openAll(NEW)).toEqual(secrets);
});

test('two at once do no harm', async () => {
  const secrets = await store(60, OLD);
  const results = await Promise.all([rotate([NEW, OLD], { batch: 7 }), rotate([NEW, OLD], { batch: 11 })]);
  expect(results.reduce((sum, { resealed }) => sum + resealed, 0)).toBe(60);
  expect(await openAll(NEW)).toEqual(secrets);
});

describe('a secret that is replaced during its resealing', () => {
  /** Lets the rotation read a batch, then replaces one of its secrets before the batch is stored. */
  async function replaceMeanwhile(
    seals: MasterKey,
  ): Promise<{ id: string; result: Awaited<ReturnType<typeof rotate>> }> {
    const ids = [...(await store(3, OLD)).keys()].sort();
    const id = ids[1] ?? '';
    const replacement = createSecretBox([seals]).seal('the new one', modelKeyBinding(id, ADDRESS));
    let replaced = false;
    const between = new InterceptedDatabase(db, async (work, run) => {
      if (!replaced) {
        replaced = true;
        await db.transaction((tx) => updateModelKey(tx, companyId, id, { name: undefined, sealedSecret: replacement }));
      }
      return run(work);
    });
    const lines: string[] = [];
    const result = await rotateMasterKeys(between, [NEW, OLD], { log: (line) => void lines.push(line) });
    return { id, result: { ...result, lines } };
  }

  test('is left alone', async () => {
    const { id, result } = await replaceMeanwhile(NEW);
    expect(result).toMatchObject({ resealed: 2, remaining: 0 });
    expect((await openAll(NEW)).get(id)).toBe('the new one');
  });

  test('by a process that still seals under the old key is still under it, and that key is to be kept', async () => {
    const { id, result } = await replaceMeanwhile(OLD);
    expect(result).toMatchObject({ resealed: 2, remaining: 1 });
    expect(result.lines.at(-1)).toBe('1 still sealed under old: keep it in MASTER_KEYS');
    expect(await rotate([NEW, OLD])).toMatchObject({ resealed: 1, remaining: 0 });
    expect((await openAll(NEW)).get(id)).toBe('the new one');
  });
});

describe('a secret that can not be opened', () => {
  test('for its master key is missing is named with that key, and the others are done', async () => {
    const [lost = ''] = [...(await store(1, LOST)).keys()];
    await store(4, OLD);
    const { lines, ...result } = await rotate([NEW, OLD], { batch: 2 });
    expect(result).toEqual({ resealed: 4, remaining: 1 });
    expect(lines.join('\n')).toMatch(new RegExp(`${lost} could not be opened \\(master key lost: .*not configured`));
    expect(lines.at(-1)).toBe('Nothing is sealed under old: it can be dropped from MASTER_KEYS');
    expect(await rotate([NEW, LOST])).toMatchObject({ resealed: 1, remaining: 0 });
  });

  test.each([
    ['was changed', (sealed: string) => `${sealed.slice(0, -4)}AAAA`, /master key old: /],
    ['is no sealed text', () => 'nothing', /this is not a sealed text/],
  ])('for it %s is named', async (_why, spoil, said) => {
    const [id = ''] = [...(await store(1, OLD)).keys()];
    await store(2, OLD);
    const { sealedSecret } = await db.modelKey.findUniqueOrThrow({ where: { id } });
    await db.modelKey.update({ where: { id }, data: { sealedSecret: spoil(sealedSecret) } });
    const { lines, ...result } = await rotate([NEW, OLD]);
    expect(result).toEqual({ resealed: 2, remaining: 1 });
    expect(lines.find((line) => line.startsWith(id))).toMatch(said);
  });
});

describe('as a command', () => {
  /** `npm run rotate-keys` with this environment. */
  function run(env: Record<string, string>, onLine: (line: string, kill: () => void) => void = () => undefined) {
    if (!existsSync(CLI)) throw new Error(`${CLI} is missing: run npm run build:all`);
    const child = spawn(process.execPath, [CLI, 'rotate-keys'], {
      env: { DATA_FOLDER: '/nowhere', ...env },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    const said = { out: '', err: '' };
    child.stdout.on('data', (chunk: Buffer) => {
      said.out += chunk.toString();
      onLine(said.out, () => void child.kill('SIGKILL'));
    });
    child.stderr.on('data', (chunk: Buffer) => void (said.err += chunk.toString()));
    return new Promise<{ code: number | null; out: string; err: string }>((resolve) => {
      child.once('close', (code) => resolve({ code, ...said }));
    });
  }
  const written = (...keys: MasterKey[]): string =>
    keys.map(({ id, key }) => `${id}:${key.toString('base64')}`).join(',');

  test('ends with 0 when all is under the first key, and prints no key and no secret', async () => {
    const secrets = await store(3, OLD);
    const { code, out, err } = await run({ DATABASE_URL: test_.url, MASTER_KEYS: written(NEW, OLD) });
    expect([code, err]).toEqual([0, '']);
    expect(out).toMatch(/3 resealed, 0 to go\nNothing is sealed under old: it can be dropped from MASTER_KEYS\n$/);
    for (const hidden of [...secrets.values(), NEW.key.toString('base64'), OLD.key.toString('base64')]) {
      expect(out).not.toContain(hidden);
    }
    expect(await openAll(NEW)).toEqual(secrets);
  });

  test('ends with 1 and names the master key that is missing, the others done', async () => {
    await store(1, LOST);
    await store(2, OLD);
    const { code, out, err } = await run({ DATABASE_URL: test_.url, MASTER_KEYS: written(NEW, OLD) });
    expect(code).toBe(1);
    expect(out).toContain('master key lost');
    expect(out).toContain('2 resealed, 1 to go');
    expect(err).toMatch(/^Not sealed under new: 1\./);
  });

  test('finds the database and the master keys of the services that run here, and mixes no other database with them', async () => {
    const parent = await mkdtemp(join(tmpdir(), 'durable-room-rotate-'));
    const folder = await openDataFolder(join(parent, 'data'));
    try {
      await folder.secret('master-keys', () => written(NEW, OLD));
      await announceServices(folder, { databaseUrl: test_.url, temporal: null });
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

  test('killed half-way leaves secrets that can all be opened, and the next one finishes', async () => {
    const secrets = await store(250, OLD);
    const env = { DATABASE_URL: test_.url, MASTER_KEYS: written(NEW, OLD) };
    const last = [...secrets.keys()].sort().at(-1) ?? '';
    await db.transaction(async (tx) => {
      // The third batch waits for this.
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
    ['no server there', { DATABASE_URL: NOWHERE, MASTER_KEYS: written(NEW) }, /127\.0\.0\.1:1/],
  ])('with %s ends with 1 and one sentence', async (_what, env, said) => {
    const { code, out, err } = await run(env);
    expect([code, out]).toEqual([1, '']);
    expect(err).toMatch(said);
    expect(err).not.toMatch(/^\s+at /m);
  });
});
