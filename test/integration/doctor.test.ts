// `npm run doctor` against real servers: all is well, and one thing wrong after the other, each with what mends it.

import { randomBytes } from 'node:crypto';
import { Connection } from '@temporalio/client';
import { newId } from '../../prisma/store/db/ids';
import { modelKeyBinding } from '../../prisma/store/model-keys/model-keys';
import { createSecretBox, parseMasterKeys } from '../../workflows/policy/secret-box';
import { checkPostgres } from '../../worker/cli/doctor/check-postgres';
import { examine } from '../../worker/cli/doctor/doctor';
import { isAllWell, printFindings, type Finding } from '../../worker/cli/doctor/findings';
import { findRunningServices } from '../../worker/local/running';
import { createTestDatabase } from '../support/database';
import { temporalAddress, until } from '../support/run-waits';
import { createWorld, MASTER_KEYS, type World } from '../support/world';

const NOTHING = { installSearchAttributes: false };

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

/** The one finding of that name. */
function found(findings: readonly Finding[], check: string): Finding {
  const finding = findings.find((each) => `${each.area}: ${each.check}` === check);
  if (!finding) throw new Error(`no finding "${check}" in\n${printFindings(findings)}`);
  return finding;
}

async function wrongWith(changes: Record<string, string>): Promise<string[]> {
  const findings = await examine({ ...healthy, ...changes }, NOTHING);
  expect(isAllWell(findings)).toBe(false);
  const wrong = findings.filter((finding) => finding.state === 'wrong');
  for (const finding of wrong) expect(finding.fix).toMatch(/\S/);
  return wrong.map((finding) => `${finding.area}: ${finding.check}`);
}

test('all is well: every area is looked at, and nothing is to be mended', async () => {
  const findings = await examine(healthy, NOTHING);
  expect(findings.filter((finding) => finding.state !== 'ok')).toEqual([]);
  expect(findings.map((finding) => `${finding.area}: ${finding.check}`)).toEqual([
    'postgres: reachable',
    'postgres: version',
    'postgres: migrations',
    'postgres: clock',
    'temporal: reachable',
    'temporal: retention',
    'temporal: search attributes',
    'temporal: data converter',
    'master keys: usable',
    'master keys: open every model key',
    'model keys: accepted by their providers',
  ]);
});

test('nothing set and nothing running: each says what to set, and nothing is thrown', async () => {
  const findings = await examine({}, NOTHING);
  expect(findings.filter((finding) => finding.state === 'wrong').map((finding) => finding.check)).toEqual([
    'reachable',
    'reachable',
    'usable',
  ]);
  expect(printFindings(findings)).toMatch(/npm start[\s\S]*openssl rand -base64 32/);
});

test('a server that is down keeps nothing else from being looked at', async () => {
  expect(await wrongWith({ DATABASE_URL: 'postgres://nobody:canary@127.0.0.1:1/none' })).toEqual([
    'postgres: reachable',
  ]);
  const findings = await examine({ ...healthy, DATABASE_URL: 'postgres://nobody:canary@127.0.0.1:1/none' }, NOTHING);
  expect(JSON.stringify(findings)).not.toContain('canary');
  expect(found(findings, 'temporal: search attributes').state).toBe('ok');
});

test('a clock that is ten seconds off is wrong, and what mends it is named', async () => {
  const now = Date.now.bind(Date);
  const clock = jest.spyOn(Date, 'now').mockImplementation(() => now() + 10_000);
  const before = now();
  const findings = await checkPostgres(world.db);
  const tookSeconds = (now() - before) / 1_000;
  clock.mockRestore();
  const finding = found(findings, 'postgres: clock');
  expect(finding).toMatchObject({ state: 'wrong', fix: expect.stringContaining('set-ntp') });
  const [, seconds] = /^(\d+\.\d) s from this machine's$/.exec(finding.message) ?? [];
  // Less of it is sure the longer Postgres took to answer. Both are rounded to a tenth.
  expect(Number(seconds)).toBeGreaterThanOrEqual(9.9 - tookSeconds);
  expect(Number(seconds)).toBeLessThanOrEqual(10.1);
});

test('a database that was not migrated names the command, and its keys are not asked for', async () => {
  const empty = await createTestDatabase();
  const findings = await examine({ ...healthy, DATABASE_URL: empty.url }, NOTHING);
  expect(found(findings, 'postgres: migrations')).toMatchObject({ state: 'wrong', fix: 'npm run migrate' });
  expect(findings.some((finding) => finding.area === 'model keys')).toBe(false);
  await empty.drop();
});

test('a master key that is missing, or that can not be read: which model keys it closes, and no key is shown', async () => {
  const other = `other:${randomBytes(32).toString('base64')}`;
  const findings = await examine({ ...healthy, MASTER_KEYS: other }, NOTHING);
  const seals = found(findings, 'master keys: open every model key');
  expect(seals).toMatchObject({ state: 'wrong', message: expect.stringMatching(/^2 of 2 can't be opened:\nmk_/) });
  expect(seals.message).toContain('master key "test"');
  expect(JSON.stringify(findings)).not.toContain(other.slice(6, 30));
  // Both configured: the old one opens.
  expect(isAllWell(await examine({ ...healthy, MASTER_KEYS: `${other},${MASTER_KEYS}` }, NOTHING))).toBe(true);
  expect(await wrongWith({ MASTER_KEYS: 'test:dGhpcyBpcyBzaG9ydA==' })).toEqual(['master keys: usable']);
});

test('a model key that its provider refused is a note to its company, not a fault of the deployment', async () => {
  const { id, baseUrl } = await world.db.modelKey.findFirstOrThrow();
  await world.db.$executeRaw`UPDATE model_keys SET rejected_version = version WHERE id = ${id}`;
  const findings = await examine(healthy, NOTHING);
  const rejected = found(findings, 'model keys: accepted by their providers');
  expect(rejected).toMatchObject({ state: 'note', message: expect.stringContaining(id) });
  expect(isAllWell(findings)).toBe(true);

  // A revoked key is opened by nobody any more, whatever it was sealed under.
  const lost = createSecretBox(parseMasterKeys(`lost:${randomBytes(32).toString('base64')}`));
  const revoked = newId('mk');
  await world.db.modelKey.create({
    data: {
      id: revoked,
      companyId: world.host.id,
      name: 'revoked',
      provider: 'openai_compatible',
      baseUrl,
      ownerSupplied: false,
      sealedSecret: lost.seal('sk-canary', modelKeyBinding(revoked, baseUrl)),
      revokedAt: new Date(),
    },
  });
  expect(isAllWell(await examine(healthy, NOTHING))).toBe(true);
});

test('a namespace that is missing, and one without our search attributes, which it installs when asked', async () => {
  expect(await wrongWith({ TEMPORAL_NAMESPACE: 'nowhere' })).toEqual(['temporal: reachable']);

  const namespace = `bare-${randomBytes(4).toString('hex')}`;
  const connection = await Connection.connect({ address: temporalAddress() });
  await connection.workflowService.registerNamespace({
    namespace,
    workflowExecutionRetentionPeriod: { seconds: 3_600 as never },
  });
  const env = { ...healthy, TEMPORAL_NAMESPACE: namespace };
  const bare = await until('the namespace to be known', async () => {
    const findings = await examine(env, NOTHING);
    return findings.some((finding) => finding.check === 'search attributes') && findings;
  });
  const attributes = found(bare, 'temporal: search attributes');
  expect(attributes).toMatchObject({ state: 'wrong', message: expect.stringContaining('RoomId') });
  expect(attributes.fix).toMatch(/--install-search-attributes[\s\S]*temporal operator search-attribute create/);
  // The server keeps histories for a day at least, whatever it was asked for: what it says is what counts.
  expect(found(bare, 'temporal: retention').message).toMatch(/histories are kept for \d+ hours/);

  const mended = await examine(env, { installSearchAttributes: true });
  expect(found(mended, 'temporal: search attributes')).toMatchObject({ state: 'ok' });
  expect(found(await examine(env, NOTHING), 'temporal: search attributes').message).toBe('all exist');
  await connection.close();
});

test('a data converter that can not be loaded is found', async () => {
  expect(await wrongWith({ TEMPORAL_DATA_CONVERTER: '/nowhere/converter.js' })).toEqual(['temporal: data converter']);
});

test('a data folder in which nothing runs names no services', async () => {
  expect(await findRunningServices('/nowhere')).toEqual({});
});
