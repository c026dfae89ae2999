// Connections to a Temporal server that requires TLS, a client certificate and an API key, configured with Temporal's own
// variables and profiles. The real server is behind a proxy that requires them.

import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { openConnection } from '../../worker/temporal/connection';
import { TemporalUnavailable } from '../../worker/temporal/failure';
import { openHistories } from '../../worker/temporal/histories';
import { readTemporalSettings } from '../../worker/temporal/settings';
import { connectTemporal } from '../../worker/connections';
import { createAuthority, type CertificateAuthority } from '../support/certificates';
import { closedRun, quietRuntime, temporalAddress } from '../support/runs';
import { startScriptedModel, type ScriptedModel } from '../support/scripted-model-server';
import { startTemporalProxy, type TemporalProxy } from '../support/temporal-proxy';
import { endWorkers, forkWorker, workerEnv } from '../support/worker-processes';
import { createWorld, type World } from '../support/world';

const API_KEY = 'tmprl-canarykey-0123456789';
const SERVER_NAME = 'temporal.test';

let folder: string;
let authority: CertificateAuthority;
let proxy: TemporalProxy;
let mutual: TemporalProxy;
let world: World;
let model: ScriptedModel;
/** These attempts fail only after the connection timeout, so they start early and run beside the tests. */
let withoutTls: Promise<string>;
let toNowhere: Promise<unknown>;

beforeAll(async () => {
  quietRuntime();
  folder = await mkdtemp(join(tmpdir(), 'durable-room-connection-'));
  authority = createAuthority();
  const common = { upstream: temporalAddress(), authority, serverName: SERVER_NAME, apiKey: API_KEY };
  proxy = await startTemporalProxy(common);
  mutual = await startTemporalProxy({ ...common, mutualTls: true });
  model = await startScriptedModel();
  world = await createWorld({ modelUrl: model.url });
  await writeFile(join(folder, 'ca.pem'), authority.cert);
  withoutTls = readRefusal({ TEMPORAL_ADDRESS: proxy.address });
  toNowhere = openConnection(readTemporalSettings({ TEMPORAL_ADDRESS: '127.0.0.1:1' })).catch(
    (error: unknown) => error,
  );
  // The test that awaits it reports the error.
  withoutTls.catch(() => undefined);
});
afterAll(async () => {
  await endWorkers();
  await world.close();
  await model.stop();
  await proxy.close();
  await mutual.close();
  await rm(folder, { recursive: true, force: true });
});

const withTls = (at: TemporalProxy = proxy): Record<string, string> => ({
  TEMPORAL_ADDRESS: at.address,
  TEMPORAL_TLS_SERVER_CA_CERT_PATH: join(folder, 'ca.pem'),
  TEMPORAL_TLS_SERVER_NAME: SERVER_NAME,
});
const withKey = (at?: TemporalProxy): Record<string, string> => ({ ...withTls(at), TEMPORAL_API_KEY: API_KEY });

/** Returns the message of the error that `connectTemporal` throws. Fails if the error contains the key. */
async function readRefusal(env: Record<string, string>): Promise<string> {
  const error: unknown = await connectTemporal(env).then(
    async (temporal) => {
      await temporal.close();
      return null;
    },
    (thrown: unknown) => thrown,
  );
  expect(error).toBeInstanceOf(TemporalUnavailable);
  expect(deepText(error)).not.toContain('canarykey');
  return (error as Error).message;
}

/** All text that a log serializer could find in an error. */
function deepText(error: unknown): string {
  if (!(error instanceof Error)) return JSON.stringify(error) ?? '';
  return [error.message, error.stack, JSON.stringify(error), deepText(error.cause)].join('\n');
}

test('clients connect with TLS and an API key from variables, and every call carries the key', async () => {
  const temporal = await connectTemporal(withKey());
  expect(temporal.namespace).toBe('default');
  await temporal.starter.workflow.count('WorkflowType = "agentRun"');
  await temporal.client.workflow.count('WorkflowType = "agentRun"');
  await temporal.close();
  expect(proxy.calls.passed).toBeGreaterThan(3);
  expect(proxy.calls.refused).toBe(0);
});

test('a worker process with a profile file, an API key and a client certificate runs a wake', async () => {
  const client = authority.issue('a client');
  await writeFile(join(folder, 'client.pem'), client.cert);
  await writeFile(join(folder, 'client.key'), client.key);
  const profiles = join(folder, 'temporal.toml');
  await writeFile(
    profiles,
    `[profile.default]
address = "127.0.0.1:1"
[profile.production]
address = "${mutual.address}"
namespace = "default"
api_key = "${API_KEY}"
[profile.production.tls]
server_name = "${SERVER_NAME}"
server_ca_cert_path = "${join(folder, 'ca.pem')}"
client_cert_path = "${join(folder, 'client.pem')}"
client_key_path = "${join(folder, 'client.key')}"
`,
  );
  const { TEMPORAL_ADDRESS: _, ...env } = workerEnv(world, 'behind-a-proxy');
  const before = mutual.calls.passed;
  const worker = forkWorker({ ...env, TEMPORAL_CONFIG_FILE: profiles, TEMPORAL_PROFILE: 'production' });
  await worker.ready;
  const posted = await world.post('@scribe hello');
  expect(await closedRun(world.db, posted.messageId)).toMatchObject({ ending: 'replied' });
  expect(mutual.calls.passed - before).toBeGreaterThan(5);
  expect(mutual.calls.refused).toBe(0);
  await worker.kill();
});

test('a wrong key, no key and a key that no header can carry have different messages', async () => {
  expect(await readRefusal({ ...withTls(), TEMPORAL_API_KEY: 'tmprl-canarykey-wrong' })).toMatch(/refused the API key/);
  expect(await readRefusal(withTls())).toMatch(/requires an API key, and none is set \(TEMPORAL_API_KEY/);
  expect(await readRefusal({ ...withTls(), TEMPORAL_API_KEY: `${API_KEY}\n` })).toMatch(/no header can carry/);
});

test('an untrusted server, another server name and a missing client certificate have different messages', async () => {
  await writeFile(join(folder, 'other-ca.pem'), createAuthority().cert);
  const otherAuthority = { ...withKey(), TEMPORAL_TLS_SERVER_CA_CERT_PATH: join(folder, 'other-ca.pem') };
  expect(await readRefusal(otherAuthority)).toMatch(/can't be trusted, or does not trust us.*certificate/s);
  expect(await readRefusal({ ...withKey(), TEMPORAL_TLS_SERVER_NAME: 'other.test' })).toMatch(/SERVER_NAME.*altnames/s);
  expect(await readRefusal(withKey(mutual))).toMatch(/client certificate|can't be reached/);
  expect(await withoutTls).toMatch(/Temporal at .* can't be/);
});

test('the error for an unknown namespace names it and the command that creates it', async () => {
  const message = await readRefusal({ ...withKey(), TEMPORAL_NAMESPACE: 'nowhere' });
  expect(message).toMatch(/has no namespace "nowhere"/);
  expect(message).toMatch(/temporal operator namespace create --namespace nowhere/);
});

test.each([
  ['a profile file that does not exist', { TEMPORAL_CONFIG_FILE: '/nowhere/temporal.toml' }, /no such file/],
  [
    'a certificate that does not exist',
    { TEMPORAL_TLS_SERVER_CA_CERT_PATH: '/nowhere/ca.pem' },
    /ca\.pem.*can't be read/,
  ],
  [
    'a client certificate without its key',
    { TEMPORAL_TLS_CLIENT_CERT_PATH: '/nowhere/client.pem' },
    /must be set together/,
  ],
])('%s has its own message', async (_, env, expected) => {
  expect(await readRefusal({ TEMPORAL_ADDRESS: '127.0.0.1:7233', ...env })).toMatch(expected);
});

test('the error for an unknown profile or an invalid TOML file names it and quotes no line of the file', async () => {
  const file = join(folder, 'broken.toml');
  await writeFile(file, `[profile.default]\napi_key = "${API_KEY}\n`);
  const broken = await readRefusal({ TEMPORAL_CONFIG_FILE: file });
  expect(broken).toMatch(/broken\.toml, line 2 can't be read/);
  await writeFile(file, `[profile.default]\napi_key = "${API_KEY}"\n`);
  expect(await readRefusal({ TEMPORAL_CONFIG_FILE: file, TEMPORAL_PROFILE: 'other' })).toMatch(
    /TEMPORAL_PROFILE is "other", and .* has no such profile/,
  );
  await writeFile(file, '');
  expect(await readRefusal({ TEMPORAL_CONFIG_FILE: file })).toMatch(
    /can't be read as TOML with a table \[profile.default\]/,
  );
});

test('a reader of histories with a wrong key reports that Temporal is unreachable, and does not throw', async () => {
  const settings = readTemporalSettings({ ...withTls(), TEMPORAL_API_KEY: 'tmprl-canarykey-wrong' });
  const histories = openHistories(settings, undefined);
  const reading = await histories.read({ workflowId: 'wake/none/none', temporalRunId: null });
  expect(reading).toMatchObject({ state: 'unreachable' });
  expect(JSON.stringify(reading)).not.toContain('canarykey');
  await histories.close();
});

test('a server that does not answer is unreachable, and the configuration needs no fix', async () => {
  const error = await toNowhere;
  expect(error).toBeInstanceOf(TemporalUnavailable);
  expect(error).toMatchObject({ needsFix: false });
});
