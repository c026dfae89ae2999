// Model keys: a secret is sealed for its address and never returned, and only some addresses are allowed.

import { modelKeyBinding } from '../../prisma/store/model-keys/model-keys';
import { newId } from '../../prisma/store/db/ids';
import { expectStatus, setUpCompany, startTestApi, type RoomCompany, type TestApi } from '../support/api';

const SECRET = 'sk-canary-0123456789';

let api: TestApi;
let larkspur: RoomCompany;

beforeAll(async () => {
  api = await startTestApi({
    providers: {
      openai: 'https://api.openai.com/v1',
      anthropic: 'https://api.anthropic.com/v1',
      house: 'http://127.0.0.1:9/v1',
    },
    allowedModelHosts: ['127.0.0.1:4711', 'models.internal:8443'],
  });
  larkspur = await setUpCompany(api, 'larkspur', 'Larkspur', 'scribe');
});
afterAll(async () => {
  expect(api.logged()).not.toContain(SECRET);
  await api.close();
});

const post = (body: object) => larkspur.admin.post('/v1/model-keys', { name: 'main', ...body });

/** Returns the secret that the worker sends to the provider. */
async function openSecret(id: string): Promise<string> {
  const row = await api.db.modelKey.findUniqueOrThrow({ where: { id } });
  return api.secretBox.open(row.sealedSecret, modelKeyBinding(row.id, row.baseUrl));
}

test('a key of a provider that the operator configured is stored sealed', async () => {
  const answer = await post({ key: SECRET, provider: 'house' });
  expect(answer.status).toBe(201);
  expect(answer.body).toEqual({
    id: expect.stringMatching(/^mk_/),
    name: 'main',
    provider: 'house',
    protocol: 'openai_compatible',
    base_url: 'http://127.0.0.1:9/v1',
    owner_supplied: false,
    version: 1,
    rejected: false,
    test: null,
    created_at: expect.any(String),
    revoked_at: null,
  });
  expect(await openSecret(answer.body.id)).toBe(SECRET);
  const one = await larkspur.admin.get(`/v1/model-keys/${answer.body.id}`);
  const list = await larkspur.admin.get('/v1/model-keys');
  expect(one.body).toEqual(answer.body);
  expect(list.body.data).toContainEqual(answer.body);
  expect(answer.text + one.text + list.text).not.toContain(SECRET);
});

describe('the protocol of an address', () => {
  test.each([
    ['openai', 'openai'],
    ['anthropic', 'anthropic'],
    ['house', 'openai_compatible'],
  ])('of the provider %s is %s', async (provider, protocol) => {
    const key = await expectStatus(201, post({ key: SECRET, provider }));
    expect(key).toMatchObject({ provider, protocol, owner_supplied: false });
    expect(await api.db.modelKey.findUniqueOrThrow({ where: { id: key.id } })).toMatchObject({ provider: protocol });
  });

  test.each([
    [undefined, 'https://models.example.com', 'https://models.example.com/v1'],
    ['openai_compatible', 'https://models.example.com', 'https://models.example.com/v1'],
    ['openai', 'https://models.example.com/v1/responses', 'https://models.example.com/v1'],
    ['anthropic', 'https://models.example.com/anthropic', 'https://models.example.com/anthropic/v1'],
    ['anthropic', 'https://models.example.com/v1/messages', 'https://models.example.com/v1'],
  ])('that belongs to an owner is the protocol that the owner names: %s', async (protocol, base_url, stored) => {
    const key = await expectStatus(201, post({ key: SECRET, base_url, protocol }));
    expect(key).toMatchObject({ protocol: protocol ?? 'openai_compatible', base_url: stored, owner_supplied: true });
  });

  test.each<[object, string]>([
    [{ base_url: 'https://models.example.com', protocol: 'gopher' }, '/protocol'],
    [{ base_url: 'https://models.example.com', protocol: null }, '/protocol'],
    [{ provider: 'openai', protocol: 'anthropic' }, '/protocol'],
    [{ base_url: 'https://models.example.com/v1/messages' }, '/base_url'],
    [{ base_url: 'https://models.example.com/v1/chat/completions', protocol: 'anthropic' }, '/base_url'],
  ])('is refused in %j', async (body, pointer) => {
    const answer = await post({ key: SECRET, ...body });
    expect([answer.status, answer.body.pointer]).toEqual([400, pointer]);
  });
});

describe('a pasted key', () => {
  test.each([`${SECRET}\n`, ` ${SECRET}`, `\t${SECRET}\r\n`])('%j is trimmed', async (key) => {
    const { id } = await expectStatus(201, post({ key, provider: 'openai' }));
    expect(await openSecret(id)).toBe(SECRET);
  });

  test.each([
    '',
    '  \n',
    `${SECRET}\n${SECRET}`,
    `${SECRET.slice(0, 5)} ${SECRET.slice(5)}`,
    `“${SECRET}”`,
    SECRET.repeat(100),
  ])('%j is refused, and the answer does not contain it', async (key) => {
    const answer = await post({ key, provider: 'openai' });
    expect([answer.status, answer.body.pointer]).toEqual([400, '/key']);
    expect(answer.text).not.toContain('sk-canary');
  });
});

test.each([
  [{ key: SECRET }, ''],
  [{ key: SECRET, provider: 'openai', base_url: 'https://models.example.com' }, ''],
  [{ key: SECRET, provider: 'absent' }, '/provider'],
  [{ key: SECRET, provider: 'https://api.openai.com/v1' }, '/provider'],
  [{ key: 7, provider: 'openai' }, '/key'],
  [{ provider: 'openai' }, '/key'],
  [{ name: 'x'.repeat(5_000), key: SECRET, provider: 'openai' }, '/name'],
])('%j is refused', async (body, pointer) => {
  const answer = await post(body);
  expect([answer.status, answer.body.pointer]).toEqual([400, pointer]);
  expect(answer.text).not.toContain(SECRET);
});

describe('a base URL', () => {
  test.each([
    ['https://models.example.com', 'https://models.example.com/v1'],
    ['https://models.example.com/', 'https://models.example.com/v1'],
    ['https://models.example.com/v1', 'https://models.example.com/v1'],
    ['https://models.example.com/v1/', 'https://models.example.com/v1'],
    ['https://MODELS.example.com:443/v1/chat/completions', 'https://models.example.com/v1'],
    ['https://models.example.com/openai//v1/', 'https://models.example.com/openai/v1'],
    ['http://127.0.0.1:4711', 'http://127.0.0.1:4711/v1'],
    ['http://2130706433:4711/v1', 'http://127.0.0.1:4711/v1'],
    ['https://models.internal:8443/v1', 'https://models.internal:8443/v1'],
    ['https://8.8.8.8/v1', 'https://8.8.8.8/v1'],
    ['https://[2606:4700::1111]/v1', 'https://[2606:4700::1111]/v1'],
  ])('%s is stored as %s', async (base_url, stored) => {
    const key = await expectStatus(201, post({ key: SECRET, base_url }));
    expect(key).toMatchObject({ base_url: stored, owner_supplied: true, provider: null });
    expect(await openSecret(key.id)).toBe(SECRET);
  });

  test.each([
    'https://models.example.com/v1?x=1',
    'https://models.example.com/v1#x',
    'https://user:pass-canary@models.example.com/v1',
    'http://models.example.com/v1',
    'ftp://models.example.com/v1',
    'file:///etc/passwd',
    'models.example.com',
    'https://',
    '',
    'https://models.example.com\n/v1',
    `https://models.example.com/${'x'.repeat(5_000)}`,
  ])('%j is refused', async (base_url) => {
    const answer = await post({ key: SECRET, base_url });
    expect([answer.status, answer.body.pointer]).toEqual([400, '/base_url']);
    expect(answer.text).not.toMatch(/example\.com|pass-canary|passwd/);
  });
});

describe('a base URL of an internal network', () => {
  test.each([
    'https://127.0.0.1/v1',
    'https://127.1/v1',
    'https://2130706433/v1',
    'https://0x7f000001/v1',
    'https://0177.0.0.1/v1',
    'https://0/v1',
    'https://127.0.0.1./v1',
    'https://１２７.0.0.1/v1',
    'https://169.254.169.254/latest',
    'https://10.1.2.3',
    'https://172.31.0.1',
    'https://192.168.1.1',
    'https://100.64.0.1',
    'https://[::1]/v1',
    'https://[::]/v1',
    'https://[::ffff:127.0.0.1]/v1',
    'https://[::ffff:a9fe:a9fe]/v1',
    'https://[64:ff9b::7f00:1]/v1',
    'https://[2002:7f00:1::]/v1',
    'https://[fe80::1]/v1',
    'https://[fd00::1]/v1',
    'https://[fd00:ec2::254]/v1',
    'https://[fec0::1]/v1',
    'https://[::7f00:1]/v1',
    'https://[64:ff9b:1::a00:1]/v1',
    'https://[2001:0:7f00:1::1]/v1',
    'https://100.100.100.200/v1',
    'https://168.63.129.16/v1',
    'https://0251.0376.0251.0376/v1',
    'https://localhost/v1',
    'https://localhost./v1',
    'https://a.localhost/v1',
    'https://printer.local/v1',
    'https://metadata.google.internal/v1',
    'https://postgres/v1',
    'http://127.0.0.1:4712/v1',
    'https://models.internal/v1',
    'http://models.example.com:4711/v1',
  ])('%s is refused', async (base_url) => {
    const answer = await post({ key: SECRET, base_url });
    expect([answer.status, answer.body.code, answer.body.pointer]).toEqual([400, 'invalid_input', '/base_url']);
  });
});

describe('a change of a model key', () => {
  test('with a new secret creates a new version that is not rejected', async () => {
    const { id } = await expectStatus(201, post({ key: SECRET, provider: 'openai' }));
    await api.db.modelKey.update({ where: { id }, data: { rejectedVersion: 1 } });
    expect((await larkspur.admin.get(`/v1/model-keys/${id}`)).body.rejected).toBe(true);
    const renamed = await expectStatus(200, larkspur.admin.patch(`/v1/model-keys/${id}`, { name: 'spare' }));
    expect(renamed).toMatchObject({ name: 'spare', version: 1, rejected: true });
    const replaced = await expectStatus(200, larkspur.admin.patch(`/v1/model-keys/${id}`, { key: `${SECRET}-2 ` }));
    expect(replaced).toMatchObject({ name: 'spare', version: 2, rejected: false });
    expect(await openSecret(id)).toBe(`${SECRET}-2`);
  });

  test.each([{}, { key: '' }, { key: 'two words' }, { base_url: 'https://other.example.com' }, { provider: 'openai' }])(
    'with %j is refused',
    async (body) => {
      const path = `/v1/model-keys/${larkspur.modelKeyId}`;
      expect(await expectStatus(400, larkspur.admin.patch(path, body))).toMatchObject({ code: 'invalid_input' });
    },
  );

  test('is refused after a revocation, which can be repeated', async () => {
    const { id } = await expectStatus(201, post({ key: SECRET, provider: 'openai' }));
    await expectStatus(204, larkspur.admin.delete(`/v1/model-keys/${id}`));
    const { revoked_at } = (await larkspur.admin.get(`/v1/model-keys/${id}`)).body;
    await expectStatus(204, larkspur.admin.delete(`/v1/model-keys/${id}`));
    expect((await larkspur.admin.get(`/v1/model-keys/${id}`)).body.revoked_at).toBe(revoked_at);
    await expectStatus(409, larkspur.admin.patch(`/v1/model-keys/${id}`, { key: SECRET }));
  });
});

test('a key of another company is not found', async () => {
  const other = await setUpCompany(api, 'tamarack', 'Tamarack', 'scout');
  for (const method of ['GET', 'PATCH', 'DELETE']) {
    const ask = (id: string) =>
      other.admin.send(method, `/v1/model-keys/${id}`, {
        ...(method === 'PATCH' && { body: '{"name":"mine"}', headers: { 'content-type': 'application/json' } }),
      });
    const [foreign, unknown] = [await ask(larkspur.modelKeyId), await ask(newId('mk'))];
    expect(foreign.status).toBe(404);
    expect({ ...foreign.body, request_id: null }).toEqual({ ...unknown.body, request_id: null });
  }
  expect((await other.admin.get('/v1/model-keys')).body.data).toHaveLength(1);
});
