// `npm run doctor` against real servers: no problem, and then one problem at a time, each with its fix.

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

/** The only finding with that name. */
function found(findings: readonly Finding[], check: string): Finding {
  const finding = findings.find((each) => `${each.area}: ${each.check}` === check);
  if (!finding) throw new Error(`no finding "${check}" in\n${printFindings(findings)}`);
  return finding;
}

async function problemsWith(changes: Record<string, string>): Promise<string[]> {
  const findings = await examine({ ...healthy, ...changes }, NOTHING);
  expect(isAllWell(findings)).toBe(false);
  const wrong = findings.filter((finding) => finding.state === 'wrong');
  for (const finding of wrong) expect(finding.fix).toMatch(/\S/);
  return wrong.map((finding) => `${finding.area}: ${finding.check}`);
}

test('every area is checked, and no problem is reported for a healthy deployment', async () => {
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

test('without settings and servers, each finding names the setting, and nothing is thrown', async () => {
  const findings = await examine({}, NOTHING);
  expect(findings.filter((finding) => finding.state === 'wrong').map((finding) => finding.check)).toEqual([
    'reachable',
    'reachable',
    'usable',
  ]);
  expect(printFindings(findings)).toMatch(/npm start[\s\S]*openssl rand -base64 32/);
});

test('a server that is down does not stop the other checks', async () => {
  expect(await problemsWith({ DATABASE_URL: 'postgres://nobody:canary@127.0.0.1:1/none' })).toEqual([
    'postgres: reachable',
  ]);
  const findings = await examine({ ...healthy, DATABASE_URL: 'postgres://nobody:canary@127.0.0.1:1/none' }, NOTHING);
  expect(JSON.stringify(findings)).not.toContain('canary');
  expect(found(findings, 'temporal: search attributes').state).toBe('ok');
});

test('a clock that is ten seconds off is reported with its fix', async () => {
  const now = Date.now.bind(Date);
  const clock = jest.spyOn(Date, 'now').mockImplementation(() => now() + 10_000);
  const before = now();
  const findings = await checkPostgres(world.db);
  const tookSeconds = (now() - before) / 1_000;
  clock.mockRestore();
  const finding = found(findings, 'postgres: clock');
  expect(finding).toMatchObject({ state: 'wrong', fix: expect.stringContaining('set-ntp') });
  const [, seconds] = /^(\d+\.\d) s from this machine's$/.exec(finding.message) ?? [];
  // The check subtracts the time that Postgres took to answer. Both numbers are rounded to a tenth.
  expect(Number(seconds)).toBeGreaterThanOrEqual(9.9 - tookSeconds);
  expect(Number(seconds)).toBeLessThanOrEqual(10.1);
});

test('a database without migrations is reported with the command, and its keys are not read', async () => {
  const empty = await createTestDatabase();
  const findings = await examine({ ...healthy, DATABASE_URL: empty.url }, NOTHING);
  expect(found(findings, 'postgres: migrations')).toMatchObject({ state: 'wrong', fix: 'npm run migrate' });
  expect(findings.some((finding) => finding.area === 'model keys')).toBe(false);
  await empty.drop();
});

test('a missing or unreadable master key is reported with the model keys that need it, without any key', async () => {
  const other = `other:${randomBytes(32).toString('base64')}`;
  const findings = await examine({ ...healthy, MASTER_KEYS: other }, NOTHING);
  const seals = found(findings, 'master keys: open every model key');
  expect(seals).toMatchObject({ state: 'wrong', message: expect.stringMatching(/^2 of 2 can't be opened:\nmk_/) });
  expect(seals.message).toContain('master key "test"');
  expect(JSON.stringify(findings)).not.toContain(other.slice(6, 30));
  // With both keys configured, the old key opens the model keys.
  expect(isAllWell(await examine({ ...healthy, MASTER_KEYS: `${other},${MASTER_KEYS}` }, NOTHING))).toBe(true);
  expect(await problemsWith({ MASTER_KEYS: 'test:dGhpcyBpcyBzaG9ydA==' })).toEqual(['master keys: usable']);
});

test('a model key that its provider refused is a note for its company, not a problem of the deployment', async () => {
  const { id, baseUrl } = await world.db.modelKey.findFirstOrThrow();
  await world.db.$executeRaw`UPDATE model_keys SET rejected_version = version WHERE id = ${id}`;
  const findings = await examine(healthy, NOTHING);
  const rejected = found(findings, 'model keys: accepted by their providers');
  expect(rejected).toMatchObject({ state: 'note', message: expect.stringContaining(id) });
  expect(isAllWell(findings)).toBe(true);

  // A revoked key is not opened any more, so its master key does not matter.
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

test('a missing namespace and missing search attributes are reported, and the attributes are installed on request', async () => {
  expect(await problemsWith({ TEMPORAL_NAMESPACE: 'nowhere' })).toEqual(['temporal: reachable']);

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
  // The server keeps histories for at least a day. The finding reports the server's answer, not the requested time.
  expect(found(bare, 'temporal: retention').message).toMatch(/histories are kept for \d+ hours/);

  const mended = await examine(env, { installSearchAttributes: true });
  expect(found(mended, 'temporal: search attributes')).toMatchObject({ state: 'ok' });
  expect(found(await examine(env, NOTHING), 'temporal: search attributes').message).toBe('all exist');
  await connection.close();
});

test('a data converter that cannot be loaded is reported', async () => {
  expect(await problemsWith({ TEMPORAL_DATA_CONVERTER: '/nowhere/converter.js' })).toEqual([
    'temporal: data converter',
  ]);
});

test('a data folder without running services yields none', async () => {
  expect(await findRunningServices('/nowhere')).toEqual({});
});
