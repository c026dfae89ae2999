// The audit: every change by a person or the operator is recorded for each company concerned and read by its admins.

import { allRoutes } from '../../api/app';
import { expectStatus, setUpRoom, startTestApi, type Json, type TestApi, type TestRoom } from '../support/api';

let api: TestApi;
let room: TestRoom;

beforeAll(async () => {
  api = await startTestApi();
  room = await setUpRoom(api);
});
afterAll(() => api.close());

const auditOf = async (of: 'larkspur' | 'tamarack', query = ''): Promise<Json[]> =>
  (await expectStatus(200, room[of].admin.get(`/v1/audit?limit=200&${query}`))).data;

test('every route that writes is audited, except routes whose writes are in the feed of a room', () => {
  const unaudited = allRoutes({} as never).filter((route) => route.method !== 'get' && route.audit === null);
  expect(unaudited.map((route) => route.path)).toEqual([
    '/v1/rooms/:room/events',
    '/v1/rooms/:room/inbox',
    '/v1/rooms/:room/files',
    '/v1/wakes/:wake/ask-again',
    '/v1/runs/:run/ask-again',
  ]);
});

test('the set-up of a room is recorded in order, with the actors and without secrets', async () => {
  const entries = await auditOf('tamarack');
  expect(entries.map((entry) => entry.action)).toEqual([
    'company.created',
    'model_key.created',
    'agent.created',
    'key.created',
    'key.created',
    'key.created',
    'member.joined',
    'roster.added',
  ]);
  expect(entries[0]).toMatchObject({ actor: { kind: 'operator', id: null, name: null, company: null } });
  expect(entries.at(-1)).toEqual({
    id: expect.stringMatching(/^audit_/),
    at: expect.stringMatching(/Z$/),
    actor: { kind: 'person', id: expect.stringMatching(/^key_/), name: 'admin', company: room.tamarack.id },
    action: 'roster.added',
    subject: room.tamarack.agentId,
    room: room.id,
    details: { rights: { reply: 'go', memory: 'go', task_update: 'go', task_send: 'go' } },
  });
  expect(JSON.stringify(entries)).not.toMatch(/sk-test|dr_person|dr_agent|token/);
});

test('changes of rights and limits are recorded with the new values', async () => {
  const { larkspur } = room;
  await expectStatus(200, larkspur.admin.patch(room.path, { run_allowance: 7 }));
  const rosterEntry = `${room.path}/roster/${larkspur.agentId}`;
  await expectStatus(200, larkspur.admin.patch(rosterEntry, { rights: { memory: 'refuse' } }));
  expect((await auditOf('larkspur', `room=${room.id}`)).slice(-2)).toMatchObject([
    { action: 'room.changed', details: { run_allowance: 7 } },
    { action: 'roster.changed', details: { rights: { reply: 'go', memory: 'refuse' } } },
  ]);
  const agent = `/v1/agents/${larkspur.agentId}`;
  for (const change of [
    { tokens_per_day: 90_000, instructions: 'canary' },
    { tokens_per_day: null, tokens_per_run: 7 },
  ]) {
    await expectStatus(200, larkspur.admin.patch(agent, change));
  }
  await expectStatus(200, larkspur.admin.patch(agent, { name: 'Scribe' }));
  const changes = (await auditOf('larkspur', 'action=agent.changed')).map((entry) => entry.details);
  expect(changes.slice(-3)).toEqual([
    { fields: ['instructions', 'tokens_per_day'], tokens_per_day: 90_000 },
    { fields: ['tokens_per_day', 'tokens_per_run'], tokens_per_day: null, tokens_per_run: 7 },
    { fields: ['name'] },
  ]);
});

test('an action of one company on another is in both audits, and the other company does not see the person', async () => {
  const { larkspur, tamarack } = room;
  await expectStatus(200, larkspur.admin.delete(`${room.path}/roster/${tamarack.agentId}`));
  const [own] = await auditOf('larkspur', 'action=roster.removed');
  const [other] = await auditOf('tamarack', 'action=roster.removed');
  expect(own.actor).toMatchObject({ name: 'admin', company: larkspur.id });
  expect(other.actor).toEqual({ kind: 'person', id: null, name: null, company: larkspur.id });
});

test('a failed change is not recorded', async () => {
  const before = (await auditOf('larkspur')).length;
  expect((await room.larkspur.admin.post('/v1/rooms', { slug: 'launch', name: 'Launch' })).status).toBe(409);
  expect(await auditOf('larkspur')).toHaveLength(before);
});

test('a repeated request that changes nothing is not recorded again', async () => {
  const { larkspur, tamarack } = room;
  const operator = api.client(api.operatorKey);
  const posted = await expectStatus(
    201,
    larkspur.member.post(`${room.path}/events`, { type: 'message', text: 'to be erased' }),
  );
  const invitation = await expectStatus(201, larkspur.admin.post(`${room.path}/invitations`));
  const spare = await expectStatus(201, larkspur.admin.post('/v1/keys', { kind: 'service', name: 'spare' }));
  const given = { name: 'spare', provider: 'openai', key: 'sk-test-spare' };
  const modelKey = await expectStatus(201, larkspur.admin.post('/v1/model-keys', given));
  for (const _ of [1, 2]) {
    await expectStatus(200, larkspur.admin.post(`${room.path}/redactions`, { subject: posted.id }));
    await expectStatus(204, larkspur.admin.delete(`${room.path}/invitations/${invitation.id}`));
    await expectStatus(204, larkspur.admin.delete(`/v1/keys/${spare.id}`));
    await expectStatus(204, larkspur.admin.delete(`/v1/model-keys/${modelKey.id}`));
    await expectStatus(200, operator.post(`/v1/companies/${tamarack.id}/suspend`));
  }
  for (const _ of [1, 2]) await expectStatus(200, operator.post(`/v1/companies/${tamarack.id}/resume`));
  expect((await auditOf('larkspur')).slice(-4)).toMatchObject([
    { action: 'redaction.made', subject: posted.id },
    { action: 'room.changed', subject: invitation.id, room: room.id, details: { invitation: 'revoked' } },
    { action: 'key.revoked', subject: spare.id },
    { action: 'model_key.revoked', subject: modelKey.id },
  ]);
  expect((await auditOf('tamarack')).slice(-2)).toMatchObject([
    { action: 'company.suspended', subject: tamarack.id },
    { action: 'company.resumed', subject: tamarack.id },
  ]);
});

test('only admins read the audit, with filters and pages', async () => {
  const { larkspur } = room;
  for (const key of [larkspur.member, larkspur.service, larkspur.agent, api.client(api.operatorKey)]) {
    expect((await key.get('/v1/audit')).status).toBe(403);
  }
  expect((await larkspur.admin.get('/v1/audit?action=nothing')).body.code).toBe('invalid_input');
  const all = await auditOf('larkspur');
  const first = await expectStatus(200, larkspur.admin.get('/v1/audit?limit=3'));
  const rest = await expectStatus(200, larkspur.admin.get(`/v1/audit?limit=200&cursor=${first.next_cursor}`));
  expect([...first.data, ...rest.data]).toEqual(all);
  const { at } = all[2];
  expect(await auditOf('larkspur', `until=${at}`)).toEqual(all.filter((entry) => entry.at < at));
  expect(await auditOf('larkspur', `since=${at}`)).toEqual(all.filter((entry) => entry.at >= at));
});

test('the audit is append-only', async () => {
  for (const change of [
    `UPDATE audit_entries SET details = '{}'`,
    'DELETE FROM audit_entries',
    'TRUNCATE audit_entries',
  ]) {
    await expect(api.db.prisma.$executeRawUnsafe(change)).rejects.toThrow('append-only');
  }
});
