// Serves the API over real HTTP on a fresh database, and creates rooms through it as a user does.

import { randomBytes } from 'node:crypto';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import pino from 'pino';
import { createApp, type ApiDeps } from '../../api/app';
import type { Database } from '../../prisma/client';
import type { PriceTable } from '../../workflows/policy/prices';
import { createSecretBox, type SecretBox } from '../../workflows/policy/secret-box';
import { ensureOperatorKey } from '../../prisma/store/access/keys';
import type { RunHistories } from '../../worker/temporal/histories';
import { createStreams, STREAM_SETTINGS, type StreamSettings } from '../../api/middleware/event-streams';
import { assertDocumented } from './contract';
import { openReusedDatabase } from './reused-databases';

// oxlint-disable-next-line typescript/no-explicit-any -- any body of the API; each test asserts the shape that it expects
export type Json = any;

export interface ApiAnswer {
  readonly status: number;
  readonly headers: Headers;
  readonly body: Json;
  readonly text: string;
}

export interface ApiClient {
  get(path: string): Promise<ApiAnswer>;
  post(path: string, body?: unknown): Promise<ApiAnswer>;
  patch(path: string, body: unknown): Promise<ApiAnswer>;
  delete(path: string): Promise<ApiAnswer>;
  /** Sends the body and headers unchanged. For requests that our own clients never send. */
  send(
    method: string,
    path: string,
    options?: { body?: string | Uint8Array; headers?: Record<string, string> },
  ): Promise<ApiAnswer>;
}

export interface TestApi {
  readonly url: string;
  readonly db: Database;
  readonly database: Database;
  readonly databaseUrl: string;
  readonly secretBox: SecretBox;
  readonly operatorKey: string;
  /** The dependencies of the routes. */
  readonly routeDeps: ApiDeps;
  /** Everything that the API logged so far, as text. */
  logged(): string;
  client(token?: string): ApiClient;
  close(): Promise<void>;
}

export interface TestApiOptions {
  readonly providers?: Readonly<Record<string, string>>;
  readonly allowedModelHosts?: readonly string[];
  readonly histories?: RunHistories;
  readonly requestsPerMinute?: number;
  readonly streams?: Partial<StreamSettings>;
  readonly fileLimitBytes?: number;
  readonly searchLimitMs?: number;
  readonly temporalUi?: { readonly url: string; readonly namespace: string };
  readonly prices?: PriceTable;
}

/** Starts the API on a free port, on a fresh database. */
export async function startTestApi(options: TestApiOptions = {}): Promise<TestApi> {
  const {
    url: databaseUrl,
    database,
    release,
  } = await openReusedDatabase({
    poolSize: 8,
    lockTimeoutMs: 40_000,
    statementTimeoutMs: 50_000,
    transactionTimeoutMs: 60_000,
  });
  const secretBox = createSecretBox([{ id: 'test', key: randomBytes(32) }]);
  const lines: string[] = [];
  const streams = createStreams({ db: database, databaseUrl }, { ...STREAM_SETTINGS, ...options.streams });
  const routeDeps: ApiDeps = {
    db: database,
    streams,
    requestsPerMinute: options.requestsPerMinute ?? 1_000_000,
    secretBox,
    providers: new Map(Object.entries(options.providers ?? { openai: 'https://api.openai.com/v1' })),
    allowedModelHosts: options.allowedModelHosts ?? [],
    fileLimitBytes: options.fileLimitBytes ?? LIMITS.fileLimitBytes,
    searchLimitMs: options.searchLimitMs ?? LIMITS.searchLimitMs,
    ...(options.histories === undefined ? {} : { histories: options.histories }),
    ...(options.temporalUi === undefined ? {} : { temporalUi: options.temporalUi }),
    prices: options.prices ?? new Map(),
    log: pino({ level: 'debug' }, { write: (line: string) => void lines.push(line) }),
  };
  const served = await serveApi(routeDeps);
  const operatorKey = await ensureOperatorKey(database, undefined);
  if (operatorKey === null) throw new Error('a fresh database had an operator key');
  const { url } = served;
  return {
    url,
    db: database,
    database,
    databaseUrl,
    secretBox,
    operatorKey,
    routeDeps,
    logged: () => lines.join(''),
    client: (token) => createClient(url, token),
    close: async () => {
      await streams.close();
      await served.close();
      await release();
    },
  };
}

/** The search limit is longer than in a deployment, because a loaded machine is slow. */
const LIMITS = { fileLimitBytes: 20 * 1024 * 1024, searchLimitMs: 9_000 };

/** Serves the API on a free port with the given dependencies. */
export async function serveApi(
  deps: Omit<ApiDeps, keyof typeof LIMITS> & Partial<typeof LIMITS>,
): Promise<{ url: string; close(): Promise<void> }> {
  // A client may use an idle connection at the moment at which the server closes it. No test is idle for a minute.
  const server = createServer({ keepAliveTimeout: 60_000 }, createApp({ ...LIMITS, ...deps }));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    close: async () => {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

/** Serves a second API on the database of `api`, with some dependencies changed. */
export function serveSecondApi(
  api: TestApi,
  change: Partial<ApiDeps>,
): Promise<{ url: string; close(): Promise<void> }> {
  return serveApi({
    db: api.db,
    secretBox: api.secretBox,
    providers: new Map(),
    allowedModelHosts: [],
    prices: new Map(),
    log: pino({ level: 'silent' }),
    ...change,
  });
}

export function createClient(url: string, token?: string): ApiClient {
  const send: ApiClient['send'] = async (method, path, { body, headers } = {}) => {
    const answer = await fetch(url + path, {
      method,
      headers: { ...(token !== undefined && { authorization: `Bearer ${token}` }), ...headers },
      ...(body !== undefined && { body }),
    });
    const text = await answer.text();
    assertDocumented(method, path, { status: answer.status, headers: answer.headers, text });
    return { status: answer.status, headers: answer.headers, text, body: text === '' ? null : parseOr(text) };
  };
  const sendJson = (method: string, path: string, body: unknown): Promise<ApiAnswer> =>
    body === undefined
      ? send(method, path)
      : send(method, path, { body: JSON.stringify(body), headers: { 'content-type': 'application/json' } });
  return {
    send,
    get: (path) => send('GET', path),
    post: (path, body) => sendJson('POST', path, body),
    patch: (path, body) => sendJson('PATCH', path, body),
    delete: (path) => send('DELETE', path),
  };
}

function parseOr(text: string): Json {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

/** The body of an answer. @throws Error if the answer has another status */
export async function expectStatus(status: number, answer: Promise<ApiAnswer>): Promise<Json> {
  const { status: got, body, text } = await answer;
  if (got !== status) throw new Error(`expected ${status}, got ${got}: ${text}`);
  return body;
}

export interface RoomCompany {
  readonly id: string;
  readonly admin: ApiClient;
  readonly member: ApiClient;
  readonly service: ApiClient;
  /** With the key of the company's agent. */
  readonly agent: ApiClient;
  readonly agentId: string;
  readonly modelKeyId: string;
}

/** An API that is already served, and the key of its operator. */
export type ReachedApi = Pick<TestApi, 'client' | 'operatorKey'>;

export interface TestRoom {
  readonly id: string;
  readonly path: string;
  /** Larkspur, with the always-on agent `scribe`. */
  readonly larkspur: RoomCompany;
  /** Tamarack, with the always-on agent `scout`. */
  readonly tamarack: RoomCompany;
}

/** Creates two companies and a room: the first is the host, the second a guest. The roster has one always-on agent of each. */
export async function setUpRoom(
  api: ReachedApi,
  options: { suffix?: string; preset?: string; room?: Record<string, unknown> } = {},
): Promise<TestRoom> {
  const { suffix = '', preset = 'autonomous' } = options;
  const larkspur = await setUpCompany(api, `larkspur${suffix}`, `Larkspur${suffix}`, 'scribe');
  const tamarack = await setUpCompany(api, `tamarack${suffix}`, `Tamarack${suffix}`, 'scout');
  const room = await expectStatus(201, larkspur.admin.post('/v1/rooms', { name: 'Launch', ...options.room }));
  const path = `/v1/rooms/${room.id}`;
  const { code } = await expectStatus(201, larkspur.admin.post(`${path}/invitations`));
  await expectStatus(201, tamarack.admin.post(`${path}/members`, { code }));
  for (const company of [larkspur, tamarack]) {
    await expectStatus(201, company.admin.post(`${path}/roster`, { agent: company.agentId, preset }));
  }
  return { id: room.id, path, larkspur, tamarack };
}

/** Creates a company with a key of each kind, a model key and one always-on agent. */
export async function setUpCompany(
  api: ReachedApi,
  slug: string,
  name: string,
  agentSlug: string,
): Promise<RoomCompany> {
  const created = await expectStatus(201, api.client(api.operatorKey).post('/v1/companies', { slug, name }));
  const admin = api.client(created.admin_key.token);
  const keyOf = async (body: object): Promise<ApiClient> => {
    const { token } = await expectStatus(201, admin.post('/v1/keys', body));
    return api.client(token);
  };
  const modelKey = await expectStatus(
    201,
    admin.post('/v1/model-keys', { name: 'main', key: 'sk-test-0123456789', provider: 'openai' }),
  );
  const agent = await expectStatus(
    201,
    admin.post('/v1/agents', {
      slug: agentSlug,
      name: agentSlug.charAt(0).toUpperCase() + agentSlug.slice(1),
      instructions: 'Be brief.',
      model: 'test-model',
      model_key: modelKey.id,
    }),
  );
  return {
    id: created.company.id,
    admin,
    member: await keyOf({ kind: 'person', role: 'member', name: 'Member' }),
    service: await keyOf({ kind: 'service', name: 'Service' }),
    agent: await keyOf({ kind: 'agent', agent: agent.id, name: 'Agent' }),
    agentId: agent.id,
    modelKeyId: modelKey.id,
  };
}
