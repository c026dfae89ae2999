// How a process reaches a Temporal that asks for TLS, a certificate and an API key: by Temporal's own variables and
// profiles, against a real server behind a proxy that asks for all of it.

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
/** Given up only when the time that a connection has is over: asked for at the start, while the others are. */
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
  withoutTls = refusal({ TEMPORAL_ADDRESS: proxy.address });
  toNowhere = openConnection(readTemporalSettings({ TEMPORAL_ADDRESS: '127.0.0.1:1' })).catch(
    (error: unknown) => error,
  );
  // Whoever looks at it is told.
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

/** The message of what `connectTemporal` throws; it never holds the key. */
async function refusal(env: Record<string, string>): Promise<string> {
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

/** Everything that a log's serializer could find in an error. */
function deepText(error: unknown): string {
  if (!(error instanceof Error)) return JSON.stringify(error) ?? '';
  return [error.message, error.stack, JSON.stringify(error), deepText(error.cause)].join('\n');
}

test('TLS and an API key from variables: clients and a worker connect, and no call passes without the key', async () => {
  const temporal = await connectTemporal(withKey());
  expect(temporal.namespace).toBe('default');
  await temporal.starter.workflow.count('WorkflowType = "agentRun"');
  await temporal.client.workflow.count('WorkflowType = "agentRun"');
  await temporal.close();
  expect(proxy.calls.passed).toBeGreaterThan(3);
  expect(proxy.calls.refused).toBe(0);
});

test('a worker process with a profile file, an API key and a client certificate carries out a wake', async () => {
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

test('a wrong key, no key and a key that no header can carry are told apart', async () => {
  expect(await refusal({ ...withTls(), TEMPORAL_API_KEY: 'tmprl-canarykey-wrong' })).toMatch(/refused the API key/);
  expect(await refusal(withTls())).toMatch(/requires an API key, and none is set \(TEMPORAL_API_KEY/);
  expect(await refusal({ ...withTls(), TEMPORAL_API_KEY: `${API_KEY}\n` })).toMatch(/no header can carry/);
});

test('a server that nobody vouches for, another name and a missing client certificate are told apart', async () => {
  await writeFile(join(folder, 'other-ca.pem'), createAuthority().cert);
  const stranger = { ...withKey(), TEMPORAL_TLS_SERVER_CA_CERT_PATH: join(folder, 'other-ca.pem') };
  expect(await refusal(stranger)).toMatch(/can't be trusted, or does not trust us.*certificate/s);
  expect(await refusal({ ...withKey(), TEMPORAL_TLS_SERVER_NAME: 'other.test' })).toMatch(/SERVER_NAME.*altnames/s);
  expect(await refusal(withKey(mutual))).toMatch(/client certificate|can't be reached/);
  expect(await withoutTls).toMatch(/Temporal at .* can't be/);
});

test('a namespace that is not there is named, with the command that makes it', async () => {
  const message = await refusal({ ...withKey(), TEMPORAL_NAMESPACE: 'nowhere' });
  expect(message).toMatch(/has no namespace "nowhere"/);
  expect(message).toMatch(/temporal operator namespace create --namespace nowhere/);
});

test.each([
  ['a profile file that is not there', { TEMPORAL_CONFIG_FILE: '/nowhere/temporal.toml' }, /no such file/],
  [
    'a certificate that is not there',
    { TEMPORAL_TLS_SERVER_CA_CERT_PATH: '/nowhere/ca.pem' },
    /ca\.pem.*can't be read/,
  ],
  [
    'a client certificate without its key',
    { TEMPORAL_TLS_CLIENT_CERT_PATH: '/nowhere/client.pem' },
    /must be set together/,
  ],
])('%s is an error of its own', async (_, env, expected) => {
  expect(await refusal({ TEMPORAL_ADDRESS: '127.0.0.1:7233', ...env })).toMatch(expected);
});

test('a profile that is not in the file, and a file that is no TOML, are named without quoting a line of it', async () => {
  const file = join(folder, 'broken.toml');
  await writeFile(file, `[profile.default]\napi_key = "${API_KEY}\n`);
  const broken = await refusal({ TEMPORAL_CONFIG_FILE: file });
  expect(broken).toMatch(/broken\.toml, line 2 can't be read/);
  await writeFile(file, `[profile.default]\napi_key = "${API_KEY}"\n`);
  expect(await refusal({ TEMPORAL_CONFIG_FILE: file, TEMPORAL_PROFILE: 'other' })).toMatch(
    /TEMPORAL_PROFILE is "other", and .* has no such profile/,
  );
  await writeFile(file, '');
  expect(await refusal({ TEMPORAL_CONFIG_FILE: file })).toMatch(
    /can't be read as TOML with a table \[profile.default\]/,
  );
});

test('a reader of histories without the right key says that it can not ask, and does not throw', async () => {
  const settings = readTemporalSettings({ ...withTls(), TEMPORAL_API_KEY: 'tmprl-canarykey-wrong' });
  const histories = openHistories(settings, undefined);
  const reading = await histories.read({ workflowId: 'wake/none/none', temporalRunId: null });
  expect(reading).toMatchObject({ state: 'unreachable' });
  expect(JSON.stringify(reading)).not.toContain('canarykey');
  await histories.close();
});

test('a server that is not there is unreachable, which time may mend', async () => {
  const error = await toNowhere;
  expect(error).toBeInstanceOf(TemporalUnavailable);
  expect(error).toMatchObject({ needsFix: false });
});
