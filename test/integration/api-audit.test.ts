// The audit: every change that a person or the operator makes, in the audit of each company that it concerns, for its admins.

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

test('every route that writes is in the audit, but those that post to a room, which has its feed', () => {
  const silent = allRoutes({} as never).filter((route) => route.method !== 'get' && route.audit === null);
  expect(silent.map((route) => route.path)).toEqual([
    '/v1/rooms/:room/events',
    '/v1/rooms/:room/inbox',
    '/v1/rooms/:room/files',
    '/v1/wakes/:wake/ask-again',
    '/v1/runs/:run/ask-again',
  ]);
});

test('setting a room up is told in order, by whom, and with no secret', async () => {
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

test('rights and limits are told with what they became', async () => {
  const { larkspur } = room;
  await expectStatus(200, larkspur.admin.patch(room.path, { run_allowance: 7 }));
  const seat = `${room.path}/roster/${larkspur.agentId}`;
  await expectStatus(200, larkspur.admin.patch(seat, { rights: { memory: 'refuse' } }));
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

test('what one company does to another stands in the audits of both, and does not name its person to the other', async () => {
  const { larkspur, tamarack } = room;
  await expectStatus(200, larkspur.admin.delete(`${room.path}/roster/${tamarack.agentId}`));
  const [own] = await auditOf('larkspur', 'action=roster.removed');
  const [other] = await auditOf('tamarack', 'action=roster.removed');
  expect(own.actor).toMatchObject({ name: 'admin', company: larkspur.id });
  expect(other.actor).toEqual({ kind: 'person', id: null, name: null, company: larkspur.id });
});

test('a change that fails leaves no trace in it', async () => {
  const before = (await auditOf('larkspur')).length;
  expect((await room.larkspur.admin.post('/v1/rooms', { slug: 'launch', name: 'Launch' })).status).toBe(409);
  expect(await auditOf('larkspur')).toHaveLength(before);
});

test('what was so before is told of once, however often it is said', async () => {
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

test('is read by admins alone, filtered and paged', async () => {
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

test('can only be added to', async () => {
  for (const change of [
    `UPDATE audit_entries SET details = '{}'`,
    'DELETE FROM audit_entries',
    'TRUNCATE audit_entries',
  ]) {
    await expect(api.db.prisma.$executeRawUnsafe(change)).rejects.toThrow('append-only');
  }
});
