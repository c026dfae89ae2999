// Rotation of the master key: every secret is resealed under the first key, also after an interruption, beside a replaced
// secret, and without one of the keys.

import { rotateMasterKeys, type RotationOptions } from '../../prisma/key-rotation';
import { createSecretBox, type MasterKey } from '../../workflows/policy/secret-box';
import { modelKeyBinding, updateModelKey } from '../../prisma/store/model-keys/model-keys';
import { InterceptedDatabase } from '../support/intercepted-database';
import {
  MODEL_ADDRESS as ADDRESS,
  newMasterKey,
  openSealedSecrets,
  type SealedSecrets,
} from '../support/sealed-secrets';

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

async function rotate(keys: readonly MasterKey[], options: Partial<RotationOptions> = {}) {
  const lines: string[] = [];
  const result = await rotateMasterKeys(db, keys, { log: (line) => void lines.push(line), ...options });
  return { ...result, lines };
}

test('reseals every secret in batches, and logs its progress and the keys that can be removed', async () => {
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

test('a secret that is already sealed under the first key is not changed', async () => {
  await store(3, NEW);
  const before = await db.modelKey.findMany({ orderBy: { id: 'asc' } });
  expect(await rotate([NEW, OLD])).toMatchObject({ resealed: 0, remaining: 0 });
  expect(await db.modelKey.findMany({ orderBy: { id: 'asc' } })).toEqual(before);
});

test('a key id that is a prefix of another key id is a different key', async () => {
  const longer = newMasterKey('new2');
  const secrets = await store(2, longer);
  expect(await rotate([NEW, longer])).toMatchObject({ resealed: 2, remaining: 0 });
  expect(await openAll(NEW)).toEqual(secrets);
});

test('after a stop between batches the resealed secrets remain, all can be opened, and the next start does the rest', async () => {
  const secrets = await store(25, OLD);
  const stopped = rotate([NEW, OLD], { batch: 10, onBatch: () => Promise.reject(new Error('stopped')) });
  await expect(stopped).rejects.toThrow('stopped');
  expect(await openAll(NEW, OLD)).toEqual(secrets);
  const { lines } = await rotate([NEW, OLD], { batch: 10 });
  expect(lines[0]).toBe('25 secrets, 15 of them not sealed under new');
  expect(await openAll(NEW)).toEqual(secrets);
});

test('two concurrent rotations reseal every secret', async () => {
  const secrets = await store(60, OLD);
  const results = await Promise.all([rotate([NEW, OLD], { batch: 7 }), rotate([NEW, OLD], { batch: 11 })]);
  expect(results.reduce((sum, { resealed }) => sum + resealed, 0)).toBe(60);
  expect(await openAll(NEW)).toEqual(secrets);
});

describe('a secret that is replaced during its resealing', () => {
  /** Replaces a secret of a batch after the rotation has read the batch and before it stores the batch. */
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
        await db.transaction((tx) =>
          updateModelKey(tx, stored.companyId, id, { name: undefined, sealedSecret: replacement }),
        );
      }
      return run(work);
    });
    const lines: string[] = [];
    const result = await rotateMasterKeys(between, [NEW, OLD], { log: (line) => void lines.push(line) });
    return { id, result: { ...result, lines } };
  }

  test('is not changed', async () => {
    const { id, result } = await replaceMeanwhile(NEW);
    expect(result).toMatchObject({ resealed: 2, remaining: 0 });
    expect((await openAll(NEW)).get(id)).toBe('the new one');
  });

  test('by a process with the old key remains sealed under it, and the log asks to keep that key', async () => {
    const { id, result } = await replaceMeanwhile(OLD);
    expect(result).toMatchObject({ resealed: 2, remaining: 1 });
    expect(result.lines.at(-1)).toBe('1 still sealed under old: keep it in MASTER_KEYS');
    expect(await rotate([NEW, OLD])).toMatchObject({ resealed: 1, remaining: 0 });
    expect((await openAll(NEW)).get(id)).toBe('the new one');
  });
});

describe('a secret that cannot be opened', () => {
  test('because its master key is missing is logged with that key, and the others are resealed', async () => {
    const [lost = ''] = [...(await store(1, LOST)).keys()];
    await store(4, OLD);
    const { lines, ...result } = await rotate([NEW, OLD], { batch: 2 });
    expect(result).toEqual({ resealed: 4, remaining: 1 });
    expect(lines.join('\n')).toMatch(new RegExp(`${lost} could not be opened \\(master key lost: .*not configured`));
    expect(lines.at(-1)).toBe('Nothing is sealed under old: it can be dropped from MASTER_KEYS');
    expect(await rotate([NEW, LOST])).toMatchObject({ resealed: 1, remaining: 0 });
  });

  test.each([
    ['it was changed', (sealed: string) => `${sealed.slice(0, -4)}AAAA`, /master key old: /],
    ['it is not a sealed text', () => 'nothing', /this is not a sealed text/],
  ])('because %s is logged', async (_why, spoil, pattern) => {
    const [id = ''] = [...(await store(1, OLD)).keys()];
    await store(2, OLD);
    const { sealedSecret } = await db.modelKey.findUniqueOrThrow({ where: { id } });
    await db.modelKey.update({ where: { id }, data: { sealedSecret: spoil(sealedSecret) } });
    const { lines, ...result } = await rotate([NEW, OLD]);
    expect(result).toEqual({ resealed: 2, remaining: 1 });
    expect(lines.find((line) => line.startsWith(id))).toMatch(pattern);
  });
});
