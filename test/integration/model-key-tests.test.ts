// A worker tests a model key: the API starts the test, each attempt sends one request, and the API returns the result.

import { randomBytes } from 'node:crypto';
import { requestReply } from '../../activities/model/provider';
import { createSecretBox } from '../../workflows/policy/secret-box';
import { takeKeyTests } from '../../prisma/store/model-keys/key-tests';
import { newId } from '../../prisma/store/db/ids';
import { listenTo } from '../../prisma/channel-listener';
import { WAKES_CHANNEL } from '../../prisma/store/rooms/room-draft';
import { createKeyTester, type KeyTesterDeps } from '../../worker/key-tester';
import type { Loop } from '../../worker/loop';
import { expectStatus, setUpCompany, startTestApi, type Json, type RoomCompany, type TestApi } from '../support/api';
import { until } from '../support/run-waits';
import { answer, type HeldAnswer, type ScriptedAnswer } from '../support/scripted-answers';
import { startScriptedModel, type ScriptedModel } from '../support/scripted-model-server';

const KEY = 'sk-test-0123456789';

let api: TestApi;
let model: ScriptedModel;
let company: RoomCompany;
let host: string;

beforeAll(async () => {
  model = await startScriptedModel();
  host = model.origin.replace('http://', '');
  api = await startTestApi({
    providers: { openai: 'https://api.openai.com/v1', house: model.url },
    allowedModelHosts: [host],
  });
  company = await setUpCompany(api, 'larkspur', 'Larkspur', 'scribe');
});
afterAll(async () => {
  await api.close();
  await model.stop();
});

const testers: Loop[] = [];
beforeEach(() => model.reset());
afterEach(async () => {
  await Promise.all(testers.splice(0).map((tester) => tester.stop()));
  await api.db.modelKeyTest.deleteMany();
});

/** A key tester like a worker's, with a short poll interval. */
function startTester(changes: Partial<KeyTesterDeps> = {}): Loop {
  const tester = createKeyTester({
    db: api.db,
    secretBox: api.secretBox,
    requestReply,
    allowedModelHosts: [host],
    pollMs: 20,
    onUnopened: () => undefined,
    onError: (error) => console.error(error),
    ...changes,
  });
  testers.push(tester);
  tester.start();
  return tester;
}

async function makeKey(body: object = { provider: 'house' }): Promise<string> {
  const { id } = await expectStatus(201, company.admin.post('/v1/model-keys', { name: 'spare', key: KEY, ...body }));
  return id;
}

const read = async (key: string): Promise<Json> => expectStatus(200, company.admin.get(`/v1/model-keys/${key}`));
const ask = (key: string, body: object = { model: 'some-model' }): Promise<Json> =>
  expectStatus(202, company.admin.post(`/v1/model-keys/${key}/test`, body));

const waitForResult = (key: string): Promise<Json> =>
  until('the test to end', async () => {
    const { test } = await read(key);
    return test.tested_at !== null && test;
  });

/** Marks the key as a worker does after a provider refused it in a run. */
async function markRejected(id: string): Promise<void> {
  await api.db.$executeRaw`UPDATE model_keys SET rejected_version = version WHERE id = ${id}`;
}

describe('a request for a test', () => {
  test('is answered before the test runs, and shown with the key', async () => {
    const key = await makeKey();
    const asked = await ask(key);
    expect(asked).toEqual({
      id: expect.stringMatching(/^test_/),
      state: 'pending',
      model: 'some-model',
      version: 1,
      code: null,
      http_status: null,
      requested_at: expect.any(String),
      tested_at: null,
    });
    expect((await read(key)).test).toEqual(asked);
    expect(model.connections).toBe(0);
    const { data } = await expectStatus(200, company.admin.get('/v1/audit?action=model_key.tested'));
    expect(data.at(-1).subject).toBe(key);
  });

  test('without a model uses the model of an agent that uses the key', async () => {
    const asked = await expectStatus(202, company.admin.post(`/v1/model-keys/${company.modelKeyId}/test`));
    expect(asked).toMatchObject({ model: 'test-model' });
  });

  test('without a model, for a key that no agent uses, gets an error that names the missing field', async () => {
    const answered = await company.admin.post(`/v1/model-keys/${await makeKey()}/test`);
    expect([answered.status, answered.body.code, answered.body.pointer]).toEqual([400, 'invalid_input', '/model']);
  });

  test.each([{ model: '' }, { model: 7 }, { model: ' x' }, { model: 'x'.repeat(201) }, { key: 'x' }])(
    'with %j is refused',
    async (body) => {
      const answered = await company.admin.post(`/v1/model-keys/${company.modelKeyId}/test`, body);
      expect([answered.status, answered.body.code]).toEqual([400, 'invalid_input']);
    },
  );

  test('returns the open test if repeated; with another model it is a conflict', async () => {
    const key = await makeKey();
    const asked = await Promise.all([ask(key), ask(key), ask(key)]);
    expect(new Set(asked.map(({ id }) => id)).size).toBe(1);
    await expectStatus(409, company.admin.post(`/v1/model-keys/${key}/test`, { model: 'another' }));
    startTester();
    await waitForResult(key);
    expect(model.requests).toHaveLength(1);
    const { id } = await ask(key, { model: 'another' });
    expect(id).not.toBe(asked[0]?.id);
    await until('the other test', async () => (await read(key)).test.state === 'ok');
    expect(model.requests.map(({ body }) => (body as Json).model)).toEqual(['some-model', 'another']);
  });

  test('for a revoked key is a conflict, for another company’s key the same as for an unknown key', async () => {
    const key = await makeKey();
    await expectStatus(204, company.admin.delete(`/v1/model-keys/${key}`));
    await expectStatus(409, company.admin.post(`/v1/model-keys/${key}/test`, { model: 'm' }));
    const other = await setUpCompany(api, 'tamarack', 'Tamarack', 'scout');
    const [foreign, unknown] = [company.modelKeyId, newId('mk')].map((id) =>
      expectStatus(404, other.admin.post(`/v1/model-keys/${id}/test`, { model: 'm' })),
    );
    expect({ ...(await foreign), request_id: null }).toEqual({ ...(await unknown), request_id: null });
  });

  test('notifies the workers in its transaction', async () => {
    const heard: (string | null)[] = [];
    const listener = listenTo(
      api.databaseUrl,
      WAKES_CHANNEL,
      (payload) => void heard.push(payload),
      () => undefined,
    );
    await until('the listener', () => Promise.resolve(heard.includes(null)));
    await ask(await makeKey());
    await until('the notification', () => Promise.resolve(heard.includes('key_test')));
    await listener.stop();
  });
});

describe('the result', () => {
  test('of a working key is ok, and the key is sent like in a run', async () => {
    const key = await makeKey();
    await ask(key);
    startTester();
    expect(await waitForResult(key)).toMatchObject({ state: 'ok', code: null, http_status: 200, version: 1 });
    expect(model.requests[0]).toMatchObject({
      path: '/v1/chat/completions',
      headers: { authorization: `Bearer ${KEY}` },
      body: { model: 'some-model' },
    });
  });

  test.each<[string, ScriptedAnswer, object]>([
    [
      'a refused key',
      answer.error(401, 'invalid_api_key'),
      { state: 'failed', code: 'key_rejected', http_status: 401 },
    ],
    [
      'an unknown model',
      answer.error(404, 'model_not_found'),
      { state: 'failed', code: 'unknown_model', http_status: 404 },
    ],
    ['a used-up quota', answer.error(429, 'insufficient_quota'), { state: 'failed', code: 'quota', http_status: 429 }],
    ['a rate limit', answer.error(429, null), { state: 'failed', code: 'rate_limit', http_status: 429 }],
    ['a long wait', answer.error(429, null, { 'retry-after': '90' }), { state: 'failed', code: 'rate_limit' }],
    ['a failing server', answer.error(500, null), { state: 'failed', code: 'server_error', http_status: 500 }],
    ['a page', answer.html(200), { state: 'failed', code: 'unreadable_answer', http_status: 200 }],
    ['a redirect', answer.redirect('http://127.0.0.1:9/'), { state: 'failed', code: 'redirect', http_status: 307 }],
    ['a reset', answer.resetAtOnce(), { state: 'failed', code: 'connection', http_status: null }],
    ['a truncated reply', answer.reply('o', { finishReason: 'length' }), { state: 'ok', code: null, http_status: 200 }],
    ['a reply that breaks the schema', answer.reply('{"reply":7}'), { state: 'ok', code: null, http_status: 200 }],
    ['a filtered reply', answer.reply('', { finishReason: 'content_filter' }), { state: 'ok', http_status: 200 }],
  ])('of %s, after one request', async (_what, scripted, expected) => {
    model.script(scripted);
    const key = await makeKey();
    await ask(key);
    startTester();
    expect(await waitForResult(key)).toMatchObject(expected);
    expect(model.connections).toBe(1);
  });

  test('marks a refused key, and a later success clears the mark', async () => {
    const key = await makeKey();
    startTester();
    model.script(answer.error(401, 'invalid_api_key'));
    await ask(key);
    await waitForResult(key);
    expect((await read(key)).rejected).toBe(true);
    await ask(key);
    await until('the second test', async () => (await read(key)).test.state === 'ok');
    expect((await read(key)).rejected).toBe(false);
  });

  test('of a failure that the key did not cause leaves the mark unchanged', async () => {
    const [good, bad] = [await makeKey(), await makeKey()];
    await markRejected(bad);
    model.respond(() => answer.error(500, null));
    startTester();
    for (const key of [good, bad]) {
      await ask(key);
      await waitForResult(key);
    }
    expect([(await read(good)).rejected, (await read(bad)).rejected]).toEqual([false, true]);
  });

  test('of a secret that no master key opens reports this without a request', async () => {
    const key = await makeKey();
    await ask(key);
    const unopened: string[] = [];
    startTester({
      secretBox: createSecretBox([{ id: 'other', key: randomBytes(32) }]),
      onUnopened: (id) => void unopened.push(id),
    });
    expect(await waitForResult(key)).toMatchObject({ state: 'failed', code: 'cannot_open', http_status: null });
    expect([unopened, model.connections, (await read(key)).rejected]).toEqual([[key], 0, false]);
  });

  test('for a suspended company reports the suspension without a request', async () => {
    const other = await setUpCompany(api, 'juniper', 'Juniper', 'clerk');
    await expectStatus(202, other.admin.post(`/v1/model-keys/${other.modelKeyId}/test`));
    const operator = api.client(api.operatorKey);
    await expectStatus(200, operator.post(`/v1/companies/${other.id}/suspend`));
    startTester();
    await until('the test to end', async () => {
      const row = await api.db.modelKeyTest.findUnique({ where: { modelKeyId: other.modelKeyId } });
      return row?.state === 'failed' && row.code === 'suspended';
    });
    expect(model.connections).toBe(0);
  });
});

describe('an address that the owner supplied', () => {
  test('is used if the operator allows it', async () => {
    const key = await makeKey({ base_url: model.url });
    await ask(key);
    startTester();
    expect(await waitForResult(key)).toMatchObject({ state: 'ok' });
  });

  test('that is internal is refused at connect time, without a connection', async () => {
    const key = await makeKey({ base_url: model.url });
    await ask(key);
    // The API has accepted the address. This worker allows no host.
    startTester({ allowedModelHosts: [] });
    expect(await waitForResult(key)).toMatchObject({ state: 'failed', code: 'address_refused', http_status: null });
    expect([model.connections, (await read(key)).rejected]).toEqual([0, false]);
  });
});

describe('a key that changes while it is tested', () => {
  let held: HeldAnswer;
  let requestSettled: Promise<void>;

  /** Starts the test of a new key. The provider answers when `held` is released. */
  async function startHeldTest(then: ScriptedAnswer): Promise<string> {
    held = answer.hold(then);
    model.script(held);
    const key = await makeKey();
    await ask(key);
    requestSettled = new Promise((resolve) => {
      startTester({ requestReply: (...request) => requestReply(...request).finally(resolve) });
    });
    await model.waitForRequests(1);
    return key;
  }

  /** Lets the provider answer, and waits until the tester has processed the answer. */
  async function finishTest(): Promise<void> {
    held.release();
    await requestSettled;
    await Promise.all(testers.splice(0).map((tester) => tester.stop()));
  }

  test('by a replaced secret: the test ends as replaced, and a late result does not affect the new secret', async () => {
    const key = await startHeldTest(answer.error(401, 'invalid_api_key'));
    await expectStatus(200, company.admin.patch(`/v1/model-keys/${key}`, { key: 'sk-test-another' }));
    expect((await read(key)).test).toMatchObject({ state: 'failed', code: 'replaced', version: 1 });
    await finishTest();
    expect(await read(key)).toMatchObject({ version: 2, rejected: false, test: { code: 'replaced', version: 1 } });
    const next = await ask(key);
    expect(next).toMatchObject({ state: 'pending', version: 2 });
    startTester();
    expect(await waitForResult(key)).toMatchObject({ id: next.id, state: 'ok' });
  });

  test('by a new name: the test continues', async () => {
    const key = await startHeldTest(answer.reply('ok'));
    await expectStatus(200, company.admin.patch(`/v1/model-keys/${key}`, { name: 'other' }));
    await finishTest();
    expect((await read(key)).test).toMatchObject({ state: 'ok' });
  });

  test('by revocation: the test ends as revoked and remains so', async () => {
    const key = await startHeldTest(answer.error(401, 'invalid_api_key'));
    await expectStatus(204, company.admin.delete(`/v1/model-keys/${key}`));
    await finishTest();
    expect(await read(key)).toMatchObject({ rejected: false, test: { state: 'failed', code: 'revoked' } });
  });
});

describe('a worker that ends', () => {
  test('by a crash leaves its test to another worker after the lease, and the result of that worker is kept', async () => {
    const key = await makeKey();
    await ask(key);
    const [lost] = await takeKeyTests(api.db, 10, 60);
    expect(lost).toMatchObject({ keyId: key, attempt: 1 });
    expect(await takeKeyTests(api.db, 10, 60)).toEqual([]);
    await api.db.$executeRaw`UPDATE model_key_tests SET due_at = clock_timestamp() - interval '1 second'`;
    startTester();
    expect(await waitForResult(key)).toMatchObject({ state: 'ok' });
    expect(model.requests).toHaveLength(1);
  });

  test.each([
    ['a configured provider', { provider: 'house' }, 3],
    ['an address that the owner supplied', {}, 1],
  ])('by a crash in every attempt ends a test with %s after the allowed attempts', async (_what, body, limit) => {
    const key = await makeKey('provider' in body ? body : { base_url: model.url });
    await ask(key);
    const taken: number[] = [];
    for (let round = 0; round < 5; round += 1) {
      taken.push((await takeKeyTests(api.db, 10, 0)).length);
    }
    expect(taken).toEqual(Array.from({ length: 5 }, (_, n) => (n < limit ? 1 : 0)));
    expect((await read(key)).test).toMatchObject({ state: 'failed', code: 'unknown' });
  });

  test('by a regular stop passes its test to another worker at once', async () => {
    const held = answer.hold();
    model.script(held);
    const key = await makeKey();
    await ask(key);
    const stopped = startTester();
    await model.waitForRequests(1);
    await stopped.stop();
    expect((await read(key)).test).toMatchObject({ state: 'running' });
    startTester();
    expect(await waitForResult(key)).toMatchObject({ state: 'ok' });
    expect(model.requests).toHaveLength(2);
    held.release();
  });
});

test('four workers run twenty tests with one request each', async () => {
  const keys = await Promise.all(Array.from({ length: 20 }, () => makeKey()));
  await Promise.all(keys.map((key) => ask(key)));
  for (let n = 0; n < 4; n += 1) startTester();
  for (const key of keys) expect(await waitForResult(key)).toMatchObject({ state: 'ok' });
  expect(model.requests).toHaveLength(20);
});
