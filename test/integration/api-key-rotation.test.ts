// Rotation of an API key: the holder gets a new key, and the old key stays valid for the requested overlap.

import { newId } from '../../prisma/store/db/ids';
import {
  expectStatus,
  setUpCompany,
  startTestApi,
  type ApiClient,
  type Json,
  type RoomCompany,
  type TestApi,
} from '../support/api';

let api: TestApi;
let company: RoomCompany;
let made = 0;

beforeAll(async () => {
  api = await startTestApi();
});
afterAll(() => api.close());
beforeEach(async () => {
  made += 1;
  company = await setUpCompany(api, `larkspur-${made}`, `Larkspur ${made}`, 'scribe');
});

const WEEK = 7 * 24 * 60 * 60;

const makeKey = (body: object): Promise<Json> => expectStatus(201, company.admin.post('/v1/keys', body));
const rotate = (id: string, body?: object, by: ApiClient = company.admin) => by.post(`/v1/keys/${id}/rotate`, body);
const statusOf = async (token: string): Promise<number> => (await api.client(token).get('/v1/rooms')).status;

async function findKey(id: string, by: ApiClient = company.admin): Promise<Json> {
  const { data } = await expectStatus(200, by.get('/v1/keys'));
  return data.find((key: Json) => key.id === id);
}

async function adminKeyId(): Promise<string> {
  const { data } = await expectStatus(200, company.admin.get('/v1/keys'));
  return data.find((key: Json) => key.role === 'admin').id;
}

/** Ends the overlap of a key now. */
async function endOverlap(id: string): Promise<void> {
  await api.db.$executeRaw`UPDATE api_keys SET expires_at = clock_timestamp() WHERE id = ${id}`;
}

test.each([
  { kind: 'person', role: 'admin', name: 'Ada' },
  { kind: 'person', role: 'member', name: 'Grace' },
  { kind: 'service', name: 'ci' },
])('%j is replaced by a key of the same holder and ends at once', async (body) => {
  const old = await makeKey(body);
  const answered = await rotate(old.id);
  expect(answered.status).toBe(201);
  expect(answered.body).toMatchObject({ ...body, company: company.id, revoked_at: null, expires_at: null });
  expect(answered.body.id).not.toBe(old.id);
  expect(answered.body.replaces).toMatchObject({ id: old.id, expires_at: expect.any(String) });
  expect(await statusOf(answered.body.token)).toBe(200);
  expect(await statusOf(old.token)).toBe(401);
  expect(JSON.stringify(await findKey(answered.body.id))).not.toContain(answered.body.token);
});

test("the successor of an agent's key belongs to the same agent", async () => {
  const old = await makeKey({ kind: 'agent', agent: company.agentId, name: 'Agent' });
  const next = await expectStatus(201, rotate(old.id));
  expect(next).toMatchObject({ kind: 'agent', agent: company.agentId, name: 'Agent' });
});

test('both keys are valid during the overlap, and the list shows its end', async () => {
  const old = await makeKey({ kind: 'service', name: 'ci' });
  const next = await expectStatus(201, rotate(old.id, { overlap_seconds: 3_600 }));
  expect([await statusOf(old.token), await statusOf(next.token)]).toEqual([200, 200]);
  const [{ seconds } = { seconds: 0 }] = await api.db.$queryRaw<{ seconds: number }[]>`
    SELECT extract(epoch FROM expires_at - (SELECT created_at FROM api_keys WHERE id = ${next.id}))::float8 AS seconds
    FROM api_keys WHERE id = ${old.id}`;
  expect(Math.round(seconds / 60)).toBe(60);
  expect((await findKey(old.id)).expires_at).toBe(next.replaces.expires_at);
  expect((await findKey(next.id)).expires_at).toBeNull();

  await endOverlap(old.id);
  expect([await statusOf(old.token), await statusOf(next.token)]).toEqual([401, 200]);
});

test('the audit records a rotation with the successor and without a token', async () => {
  const old = await makeKey({ kind: 'service', name: 'ci' });
  const next = await expectStatus(201, rotate(old.id, { overlap_seconds: 60 }));
  const { data } = await expectStatus(200, company.admin.get('/v1/audit?action=key.rotated'));
  expect(data).toMatchObject([{ subject: old.id, details: { successor: next.id, overlap_seconds: 60 } }]);
  expect(JSON.stringify(data)).not.toContain(next.token);
});

test('a key can rotate itself', async () => {
  const id = await adminKeyId();
  const next = await expectStatus(201, rotate(id));
  expect((await company.admin.get('/v1/keys')).status).toBe(401);
  expect((await findKey(id, api.client(next.token))).expires_at).not.toBeNull();
});

test.each([
  { overlap_seconds: -1 },
  { overlap_seconds: WEEK + 1 },
  { overlap_seconds: 1.5 },
  { overlap_seconds: '60' },
  { overlap_seconds: null },
  { overlap: 60 },
])('%j is refused', async (body) => {
  const answered = await rotate(await adminKeyId(), body);
  expect([answered.status, answered.body.code]).toEqual([400, 'invalid_input']);
});

test('an overlap of a week is accepted', async () => {
  const old = await makeKey({ kind: 'service', name: 'ci' });
  await expectStatus(201, rotate(old.id, { overlap_seconds: WEEK }));
});

test('concurrent requests rotate a key once', async () => {
  const old = await makeKey({ kind: 'service', name: 'ci' });
  const answers = await Promise.all(Array.from({ length: 5 }, () => rotate(old.id, { overlap_seconds: 60 })));
  expect(answers.map(({ status }) => status).sort()).toEqual([201, 409, 409, 409, 409]);
});

test('a revoked key cannot be rotated, and a key in its overlap can be revoked', async () => {
  const revoked = await makeKey({ kind: 'service', name: 'ci' });
  await expectStatus(204, company.admin.delete(`/v1/keys/${revoked.id}`));
  await expectStatus(409, rotate(revoked.id));

  const old = await makeKey({ kind: 'service', name: 'cd' });
  await expectStatus(201, rotate(old.id, { overlap_seconds: 3_600 }));
  await expectStatus(204, company.admin.delete(`/v1/keys/${old.id}`));
  expect(await statusOf(old.token)).toBe(401);
});

test('a key of another company is not found', async () => {
  const other = await setUpCompany(api, `tamarack-${made}`, 'Tamarack', 'scout');
  const foreign = await rotate(await adminKeyId(), {}, other.admin);
  const unknown = await rotate(newId('key'), {}, other.admin);
  expect([foreign.status, unknown.status]).toEqual([404, 404]);
  expect({ ...foreign.body, request_id: null }).toEqual({ ...unknown.body, request_id: null });
});

describe('the last admin key of a company', () => {
  test('cannot be revoked, and a key in its overlap does not count', async () => {
    const first = await adminKeyId();
    const next = await expectStatus(201, rotate(first, { overlap_seconds: 3_600 }));
    // The old key is still an admin key, but it expires at the end of the overlap.
    await expectStatus(409, company.admin.delete(`/v1/keys/${next.id}`));
    await expectStatus(204, api.client(next.token).delete(`/v1/keys/${first}`));
    await expectStatus(409, api.client(next.token).delete(`/v1/keys/${next.id}`));
  });

  test('remains after concurrent rotations and a revocation', async () => {
    const first = await adminKeyId();
    const second = await makeKey({ kind: 'person', role: 'admin', name: 'Ada' });
    await Promise.all([
      rotate(first, {}, api.client(second.token)),
      company.admin.delete(`/v1/keys/${second.id}`),
      rotate(second.id, {}, company.admin),
    ]);
    const lasting = await api.db.apiKey.count({
      where: { companyId: company.id, role: 'admin', revokedAt: null, expiresAt: null },
    });
    expect(lasting).toBeGreaterThan(0);
  });
});
