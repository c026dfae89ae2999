// Access: every route with every kind of key, and the creation, listing and revocation of keys.

import { randomBytes } from 'node:crypto';
import { allRoutes } from '../../api/app';
import { ensureOperatorKey } from '../../prisma/store/access/keys';
import { newId } from '../../prisma/store/db/ids';
import {
  createClient,
  expectStatus,
  setUpCompany,
  setUpRoom,
  startTestApi,
  type ApiClient,
  type RoomCompany,
  type TestApi,
} from '../support/api';

let api: TestApi;
let larkspur: RoomCompany;

beforeAll(async () => {
  api = await startTestApi();
  larkspur = await setUpCompany(api, 'larkspur', 'Larkspur', 'scribe');
});
afterAll(() => api.close());

/** The roles that may call each route: O operator, A admin, M member, S service, G agent. */
const ROUTE_ROLES: Readonly<Record<string, string>> = {
  'POST /v1/companies': 'O',
  'GET /v1/companies': 'O',
  'GET /v1/companies/:company': 'OAMSG',
  'PATCH /v1/companies/:company': 'A',
  'GET /v1/companies/:company/usage': 'AMSG',
  'POST /v1/companies/:company/admin-keys': 'O',
  'POST /v1/companies/:company/suspend': 'O',
  'POST /v1/companies/:company/resume': 'O',
  'POST /v1/keys': 'A',
  'GET /v1/feed': 'AMSG',
  'GET /v1/keys': 'A',
  'DELETE /v1/keys/:key': 'A',
  'POST /v1/keys/:key/rotate': 'A',
  'POST /v1/model-keys': 'A',
  'GET /v1/model-keys': 'A',
  'GET /v1/model-keys/:model_key': 'A',
  'PATCH /v1/model-keys/:model_key': 'A',
  'DELETE /v1/model-keys/:model_key': 'A',
  'POST /v1/model-keys/:model_key/test': 'A',
  'POST /v1/agents': 'A',
  'GET /v1/agents': 'AMSG',
  'GET /v1/agents/:agent': 'AMSG',
  'PATCH /v1/agents/:agent': 'A',
  'POST /v1/agents/:agent/pause': 'AM',
  'POST /v1/agents/:agent/resume': 'AM',
  'POST /v1/rooms': 'A',
  'GET /v1/rooms': 'AMSG',
  'GET /v1/rooms/:room': 'AMSG',
  'PATCH /v1/rooms/:room': 'A',
  'POST /v1/rooms/:room/invitations': 'A',
  'GET /v1/rooms/:room/invitations': 'A',
  'DELETE /v1/rooms/:room/invitations/:invitation': 'A',
  'POST /v1/rooms/:room/members': 'A',
  'GET /v1/rooms/:room/members': 'AMSG',
  'DELETE /v1/rooms/:room/members/:company': 'A',
  'POST /v1/rooms/:room/close': 'A',
  'POST /v1/rooms/:room/roster': 'A',
  'GET /v1/rooms/:room/roster': 'AMSG',
  'PATCH /v1/rooms/:room/roster/:agent': 'A',
  'DELETE /v1/rooms/:room/roster/:agent': 'A',
  'POST /v1/rooms/:room/redactions': 'A',
  'POST /v1/rooms/:room/events': 'AMSG',
  'GET /v1/rooms/:room/events': 'AMSG',
  'GET /v1/rooms/:room/messages': 'AMSG',
  'GET /v1/rooms/:room/messages/:message': 'AMSG',
  'GET /v1/rooms/:room/tasks': 'AMSG',
  'GET /v1/rooms/:room/tasks/:task': 'AMSG',
  'GET /v1/rooms/:room/memory': 'AMSG',
  'GET /v1/rooms/:room/memory/:entry': 'AMSG',
  'POST /v1/rooms/:room/inbox': 'G',
  'POST /v1/rooms/:room/files': 'AMSG',
  'GET /v1/rooms/:room/files': 'AMSG',
  'GET /v1/rooms/:room/files/:file': 'AMSG',
  'GET /v1/rooms/:room/files/:file/content': 'AMSG',
  'GET /v1/rooms/:room/passages': 'AMSG',
  'GET /v1/rooms/:room/passages/:passage': 'AMSG',
  'GET /v1/wakes': 'AMSG',
  'GET /v1/wakes/:wake': 'AMSG',
  'GET /v1/runs': 'AMSG',
  'GET /v1/runs/:run': 'AMSG',
  'GET /v1/runs/:run/timeline': 'AMSG',
  'GET /v1/rooms/:room/usage': 'AMSG',
  'GET /v1/agents/:agent/usage': 'AMSG',
  'GET /v1/audit': 'A',
  'GET /v1/held-actions': 'AMSG',
  'GET /v1/held-actions/:held_action': 'AMSG',
  'POST /v1/held-actions/:held_action/decision': 'AM',
  'POST /v1/runs/:run/cancel': 'AM',
  'POST /v1/runs/:run/ask-again': 'AMSG',
  'POST /v1/wakes/:wake/ask-again': 'AMSG',
  'POST /v1/rooms/:room/pause': 'AM',
  'POST /v1/rooms/:room/resume': 'AM',
};

const PREFIX = {
  company: 'co',
  key: 'key',
  model_key: 'mk',
  agent: 'agent',
  room: 'room',
  invitation: 'inv',
  message: 'msg',
  task: 'task',
  entry: 'mem',
  wake: 'wake',
  run: 'run',
  held_action: 'held',
  file: 'file',
  passage: 'psg',
} as const;

function withUnknownIds(path: string): string {
  return path.replace(/:(\w+)/g, (_, name: keyof typeof PREFIX) => newId(PREFIX[name]));
}

describe('the table of roles', () => {
  test('names every route and nothing else', () => {
    const deps = { providers: new Map(), allowedModelHosts: [] } as unknown as Parameters<typeof allRoutes>[0];
    const routes = allRoutes(deps).map((route) => `${route.method.toUpperCase()} ${route.path}`);
    expect(routes.toSorted()).toEqual(Object.keys(ROUTE_ROLES).toSorted());
  });

  test.each(Object.entries(ROUTE_ROLES))('%s is allowed for %s only', async (route, roles) => {
    const [method = '', path = ''] = route.split(' ');
    const callers: Readonly<Record<string, ApiClient>> = {
      O: api.client(api.operatorKey),
      A: larkspur.admin,
      M: larkspur.member,
      S: larkspur.service,
      G: larkspur.agent,
    };
    for (const [role, client] of Object.entries(callers)) {
      const answer = await client.send(method, withUnknownIds(path), {
        ...(method !== 'GET' && { body: '{}', headers: { 'content-type': 'application/json' } }),
      });
      const refused = answer.status === 403 && answer.body.code === 'not_allowed';
      expect([role, refused]).toEqual([role, !roles.includes(role)]);
      expect(answer.status).not.toBe(401);
      expect(answer.status).toBeLessThan(500);
    }
    const anonymous = await api.client().send(method, withUnknownIds(path));
    expect(anonymous.status).toBe(401);
  });
});

describe('a refused key', () => {
  test('gets the same 401 answer for every defect', async () => {
    const { id, token } = await expectStatus(201, larkspur.admin.post('/v1/keys', { kind: 'service', name: 'old' }));
    await expectStatus(200, api.client(token).get('/v1/rooms'));
    await expectStatus(204, larkspur.admin.delete(`/v1/keys/${id}`));
    const headers: Record<string, string>[] = [
      {},
      { authorization: `Bearer ${token}` },
      { authorization: `Bearer dr_service_${randomBytes(32).toString('base64url')}` },
      { authorization: 'Bearer' },
      { authorization: `Basic ${token}` },
      { authorization: `Bearer ${token} ${token}` },
      { authorization: `Bearer ${'x'.repeat(5_000)}` },
      { authorization: "Bearer ' OR 1=1 --" },
    ];
    const bodies = new Set<string>();
    for (const given of headers) {
      const answer = await api.client().send('GET', '/v1/rooms', { headers: given });
      expect(answer.status).toBe(401);
      expect(answer.headers.get('www-authenticate')).toBe('Bearer');
      expect(answer.headers.get('content-type')).toContain('application/problem+json');
      bodies.add(JSON.stringify({ ...answer.body, request_id: null }));
    }
    expect(bodies.size).toBe(1);
  });

  test('of a suspended company gets 403 until the company is resumed', async () => {
    const company = await setUpCompany(api, 'foxglove', 'Foxglove', 'scribe');
    const operator = api.client(api.operatorKey);
    const suspended = await expectStatus(200, operator.post(`/v1/companies/${company.id}/suspend`));
    expect(suspended.suspended_at).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
    const again = await expectStatus(200, operator.post(`/v1/companies/${company.id}/suspend`, {}));
    expect(again.suspended_at).toBe(suspended.suspended_at);
    for (const client of [company.admin, company.member, company.service, company.agent]) {
      const body = await expectStatus(403, client.get('/v1/rooms'));
      expect(body.code).toBe('company_suspended');
    }
    const resumed = await expectStatus(200, operator.post(`/v1/companies/${company.id}/resume`));
    expect(resumed.suspended_at).toBeNull();
    await expectStatus(200, company.member.get('/v1/rooms'));
  });
});

describe('keys', () => {
  test('show their token once and are stored hashed', async () => {
    const made = await expectStatus(
      201,
      larkspur.admin.post('/v1/keys', { kind: 'person', role: 'member', name: ' Ada Lovelace ' }),
    );
    expect(made).toMatchObject({ kind: 'person', role: 'member', name: 'Ada Lovelace', agent: null, revoked_at: null });
    expect(made.token).toMatch(/^dr_person_[A-Za-z0-9_-]{43}$/);
    const listed = await larkspur.admin.get('/v1/keys?limit=200');
    expect(listed.body.data.map((key: { id: string }) => key.id)).toContain(made.id);
    expect(listed.text).not.toContain(made.token);
    const row = await api.db.apiKey.findUniqueOrThrow({ where: { id: made.id } });
    expect(row.tokenHash).toHaveLength(32);
    expect(api.logged()).not.toContain(made.token);
  });

  test.each([
    [{ kind: 'operator', name: 'x' }, '/kind'],
    [{ kind: 'person', name: 'x' }, '/role'],
    [{ kind: 'service', role: 'admin', name: 'x' }, '/role'],
    [{ kind: 'agent', name: 'x' }, '/agent'],
    [{ kind: 'agent', agent: newId('agent'), name: 'x' }, '/agent'],
    [{ kind: 'agent', agent: newId('room'), name: 'x' }, '/agent'],
    [{ kind: 'service', name: '  ' }, '/name'],
    [{ kind: 'service', name: 'x'.repeat(81) }, '/name'],
    [{ kind: 'service', name: 'two\nlines' }, '/name'],
  ])('%j is refused at %s', async (body, pointer) => {
    const answer = await expectStatus(400, larkspur.admin.post('/v1/keys', body));
    expect(answer).toMatchObject({ code: 'invalid_input', pointer });
  });

  test('can be created only for an agent of the same company', async () => {
    const other = await setUpCompany(api, 'yarrow', 'Yarrow', 'scribe');
    const body = { kind: 'agent', agent: other.agentId, name: 'spy' };
    expect(await expectStatus(400, larkspur.admin.post('/v1/keys', body))).toMatchObject({ pointer: '/agent' });
  });

  test('can be revoked, but two concurrent requests cannot revoke the last admin key', async () => {
    const company = await setUpCompany(api, 'sorrel', 'Sorrel', 'scribe');
    const second = await expectStatus(
      201,
      company.admin.post('/v1/keys', { kind: 'person', role: 'admin', name: 'b' }),
    );
    const { data } = await expectStatus(200, company.admin.get('/v1/keys'));
    const first = data.find((key: { role: string }) => key.role === 'admin');
    const both = await Promise.all([
      company.admin.delete(`/v1/keys/${second.id}`),
      api.client(second.token).delete(`/v1/keys/${first.id}`),
    ]);
    const statuses = both.map((answer) => answer.status).toSorted();
    // The key of the losing request may already be revoked when that request is authenticated.
    expect([204, 401, 409]).toEqual(expect.arrayContaining(statuses));
    expect(statuses.filter((status) => status === 204)).toHaveLength(1);
    const live = await api.db.apiKey.count({ where: { companyId: company.id, role: 'admin', revokedAt: null } });
    expect(live).toBe(1);
    const kept =
      both[0].status === 204
        ? { client: company.admin, id: first.id }
        : { client: api.client(second.token), id: second.id };
    const last = await expectStatus(409, kept.client.delete(`/v1/keys/${kept.id}`));
    expect(last.code).toBe('conflict');
  });

  test('can be revoked twice, and a key of another company is not found', async () => {
    const { id } = await expectStatus(201, larkspur.admin.post('/v1/keys', { kind: 'service', name: 'once' }));
    await expectStatus(204, larkspur.admin.delete(`/v1/keys/${id}`));
    await expectStatus(204, larkspur.admin.delete(`/v1/keys/${id}`));
    const other = await setUpCompany(api, 'teasel', 'Teasel', 'scribe');
    const foreign = await other.admin.delete(`/v1/keys/${id}`);
    const unknown = await other.admin.delete(`/v1/keys/${newId('key')}`);
    expect(foreign.status).toBe(404);
    expect({ ...foreign.body, request_id: null }).toEqual({ ...unknown.body, request_id: null });
  });
});

test('the operator creates a new admin key for a company that lost its only one', async () => {
  const company = await setUpCompany(api, 'bramble', 'Bramble', 'scribe');
  const operator = api.client(api.operatorKey);
  const path = `/v1/companies/${company.id}/admin-keys`;
  const send = () => operator.send('POST', path, { headers: { 'idempotency-key': 'lost' } });
  const made = await send();
  expect(made.status).toBe(201);
  expect(made.body).toMatchObject({ kind: 'person', role: 'admin', name: 'admin', company: company.id });
  const { id, token } = made.body;
  expect(token).toMatch(/^dr_person_[A-Za-z0-9_-]{43}$/);
  expect((await send()).body).toEqual({ ...made.body, token: null });
  expect(api.logged()).not.toContain(token);

  const admin = api.client(token);
  const { data: keys } = await expectStatus(200, admin.get('/v1/keys'));
  const admins = keys.filter((key: { role: string }) => key.role === 'admin');
  expect(admins).toHaveLength(2);
  const lost = admins.find((key: { id: string }) => key.id !== id);
  await expectStatus(204, admin.delete(`/v1/keys/${lost.id}`));
  await expectStatus(401, company.admin.get('/v1/keys'));

  const { data: audit } = await expectStatus(200, admin.get(`/v1/audit?subject=${id}`));
  expect(audit).toMatchObject([
    {
      action: 'key.created',
      subject: id,
      actor: { kind: 'operator', id: null, name: null, company: null },
      details: { kind: 'person', role: 'admin' },
    },
  ]);
  expect(await expectStatus(404, operator.post(`/v1/companies/${newId('co')}/admin-keys`))).toMatchObject({
    code: 'not_found',
  });
  await expectStatus(400, operator.post(path, { role: 'member' }));
});

describe("the operator's key", () => {
  let own: TestApi;
  beforeAll(async () => {
    own = await startTestApi();
  });
  afterAll(() => own.close());

  const works = async (token: string): Promise<boolean> =>
    (await createClient(own.url, token).get('/v1/companies')).status === 200;

  test('is created once and returned once', async () => {
    expect(own.operatorKey).toMatch(/^dr_operator_[A-Za-z0-9_-]{43}$/);
    expect(await ensureOperatorKey(own.db, undefined)).toBeNull();
    expect(await works(own.operatorKey)).toBe(true);
  });

  test('from the configuration replaces every other operator key', async () => {
    const configured = 'c'.repeat(40);
    expect(await ensureOperatorKey(own.db, configured)).toBeNull();
    expect(await works(configured)).toBe(true);
    expect(await works(own.operatorKey)).toBe(false);
    expect(await ensureOperatorKey(own.db, configured)).toBeNull();
    expect(await works(configured)).toBe(true);
    const next = 'n'.repeat(40);
    await ensureOperatorKey(own.db, next);
    expect([await works(next), await works(configured)]).toEqual([true, false]);
    await ensureOperatorKey(own.db, configured);
    expect([await works(next), await works(configured)]).toEqual([false, true]);
    expect(await ensureOperatorKey(own.db, undefined)).toBeNull();
    expect(await works(configured)).toBe(true);
  });

  test('is created by one of several processes that start at the same time', async () => {
    await own.db.apiKey.deleteMany({ where: { kind: 'operator' } });
    const made = await Promise.all(Array.from({ length: 6 }, () => ensureOperatorKey(own.db, undefined)));
    const tokens = made.filter((token) => token !== null);
    expect(tokens).toHaveLength(1);
    expect(await works(tokens[0] as string)).toBe(true);
  });

  test('cannot be the key of a company', async () => {
    const company = await setUpCompany(own, 'larkspur', 'Larkspur', 'scribe').catch(() => null);
    expect(company).toBeNull();
    const operatorKey = (await ensureOperatorKey(own.db, 'o'.repeat(40))) ?? 'o'.repeat(40);
    const made = await setUpCompany({ ...own, operatorKey }, 'larkspur', 'Larkspur', 'scribe');
    const { token } = await expectStatus(201, made.admin.post('/v1/keys', { kind: 'service', name: 's' }));
    await expect(ensureOperatorKey(own.db, token)).rejects.toThrow("company's key");
    expect(await works(operatorKey)).toBe(true);
  });
});

test('an agent with a key reads and posts only in its rooms', async () => {
  const room = await setUpRoom(api, { suffix: '-a' });
  const { id } = await expectStatus(201, room.larkspur.admin.post('/v1/rooms', { name: 'Other' }));
  expect((await room.larkspur.member.get('/v1/rooms')).body.data).toHaveLength(2);
  const { data } = await expectStatus(200, room.larkspur.agent.get('/v1/rooms'));
  expect(data.map((seen: { id: string }) => seen.id)).toEqual([room.id]);
  for (const path of ['', '/events', '/messages', '/tasks', '/memory', '/roster', '/members']) {
    await expectStatus(404, room.larkspur.agent.get(`/v1/rooms/${id}${path}`));
    await expectStatus(200, room.larkspur.agent.get(`${room.path}${path}`));
  }
  await expectStatus(404, room.larkspur.agent.post(`/v1/rooms/${id}/events`, { type: 'message', text: 'hi' }));
});
