// Rooms, invitations and memberships.

import { newId } from '../../prisma/store/db/ids';
import { expectStatus, setUpCompany, startTestApi, type RoomCompany, type TestApi } from '../support/api';

let api: TestApi;
let host: RoomCompany;
let guest: RoomCompany;
let stranger: RoomCompany;

beforeAll(async () => {
  api = await startTestApi();
  host = await setUpCompany(api, 'larkspur', 'Larkspur', 'scribe');
  guest = await setUpCompany(api, 'tamarack', 'Tamarack', 'scout');
  stranger = await setUpCompany(api, 'yarrow', 'Yarrow', 'clerk');
});
afterAll(() => api.close());

let rooms = 0;
async function newRoom(body: object = {}): Promise<string> {
  rooms += 1;
  return `/v1/rooms/${(await expectStatus(201, host.admin.post('/v1/rooms', { name: `Room ${rooms}`, ...body }))).id}`;
}

async function invite(room: string): Promise<{ id: string; code: string; expires_at: string }> {
  return expectStatus(201, host.admin.post(`${room}/invitations`));
}

describe('a room', () => {
  test('has its host as the first member and in its first event', async () => {
    const room = await expectStatus(201, host.admin.post('/v1/rooms', { name: 'Launch' }));
    expect(room).toEqual({
      id: expect.stringMatching(/^room_/),
      slug: 'launch',
      name: 'Launch',
      host: host.id,
      on_crash: 'stop',
      hop_limit: 8,
      run_allowance: 1_000,
      last_seq: 1,
      created_at: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/),
      paused_at: null,
      closed_at: null,
    });
    const { data, next_cursor } = await expectStatus(200, host.member.get(`/v1/rooms/${room.id}/events`));
    expect(data).toMatchObject([
      { seq: 1, type: 'member_joined', company: host.id, data: { slug: 'larkspur', role: 'host' } },
    ]);
    expect(next_cursor).toBeNull();
    expect((await host.member.get(`/v1/rooms/${room.id}`)).body).toEqual(room);
    expect((await host.member.get('/v1/rooms')).body.data).toContainEqual(room);
  });

  test('has a unique slug within its company', async () => {
    const body = { slug: 'plans', name: 'Plans' };
    await expectStatus(201, host.admin.post('/v1/rooms', body));
    const answers = await Promise.all(Array.from({ length: 4 }, () => host.admin.post('/v1/rooms', body)));
    for (const answer of answers) expect([answer.status, answer.body.code]).toEqual([409, 'conflict']);
    await expectStatus(201, guest.admin.post('/v1/rooms', body));
  });

  test.each([
    [{ on_crash: 'retry' }, '/on_crash'],
    [{ hop_limit: -1 }, '/hop_limit'],
    [{ hop_limit: 65 }, '/hop_limit'],
    [{ hop_limit: 1.5 }, '/hop_limit'],
    [{ run_allowance: -1 }, '/run_allowance'],
    [{ run_allowance: 2_147_483_648 }, '/run_allowance'],
    [{ run_allowance: '5' }, '/run_allowance'],
  ])('with %j is refused', async (body, pointer) => {
    expect(await expectStatus(400, host.admin.post('/v1/rooms', { name: 'x', ...body }))).toMatchObject({ pointer });
    expect(await expectStatus(400, host.admin.patch(await newRoom(), body))).toMatchObject({ pointer });
  });

  test('is changed by its host only', async () => {
    const room = await newRoom();
    await expectStatus(201, guest.admin.post(`${room}/members`, { code: (await invite(room)).code }));
    const change = { name: 'Renamed', on_crash: 'resume', hop_limit: 0, run_allowance: 3 };
    expect(await expectStatus(200, host.admin.patch(room, change))).toMatchObject(change);
    expect(await expectStatus(200, host.admin.patch(room, { hop_limit: 4 }))).toMatchObject({
      ...change,
      hop_limit: 4,
    });
    await expectStatus(400, host.admin.patch(room, {}));
    await expectStatus(400, host.admin.patch(room, { slug: 'other' }));
    expect(await expectStatus(403, guest.admin.patch(room, change))).toMatchObject({ code: 'not_allowed' });
    expect(await expectStatus(404, stranger.admin.patch(room, change))).toMatchObject({ code: 'not_found' });
    expect((await guest.member.get(room)).body).toMatchObject({ hop_limit: 4 });
  });
});

describe('an invitation', () => {
  test('makes one company a guest, once', async () => {
    const room = await newRoom();
    const invitation = await invite(room);
    expect(invitation.code).toMatch(/^dr_invite_[A-Za-z0-9_-]{43}$/);
    const days = (Date.parse(invitation.expires_at) - Date.now()) / 86_400_000;
    expect(days).toBeGreaterThan(6.9);
    expect(days).toBeLessThan(7.1);
    const row = await api.db.invitation.findUniqueOrThrow({ where: { id: invitation.id } });
    expect(row.codeHash).toHaveLength(32);

    await expectStatus(404, guest.member.get(room));
    const member = await expectStatus(201, guest.admin.post(`${room}/members`, { code: invitation.code }));
    expect(member).toMatchObject({ company: guest.id, slug: 'tamarack', name: 'Tamarack', role: 'guest' });
    await expectStatus(200, guest.member.get(room));
    const members = (await expectStatus(200, guest.member.get(`${room}/members`))).data;
    expect(members.map((entry: { role: string }) => entry.role).toSorted()).toEqual(['guest', 'host']);
    const { data } = await expectStatus(200, host.member.get(`${room}/events`));
    expect(data.at(-1)).toMatchObject({ seq: 2, type: 'member_joined', company: guest.id, data: { role: 'guest' } });

    expect(await expectStatus(409, guest.admin.post(`${room}/members`, { code: invitation.code }))).toMatchObject({
      code: 'conflict',
    });
    expect(await expectStatus(410, stranger.admin.post(`${room}/members`, { code: invitation.code }))).toMatchObject({
      code: 'gone',
    });
    const another = await invite(room);
    expect(await expectStatus(409, guest.admin.post(`${room}/members`, { code: another.code }))).toMatchObject({
      code: 'conflict',
    });
    await expectStatus(409, host.admin.post(`${room}/members`, { code: another.code }));
    await expectStatus(201, stranger.admin.post(`${room}/members`, { code: another.code }));
    expect(api.logged()).not.toContain(invitation.code);
  });

  test('that is wrong, expired or for another room has no effect', async () => {
    const [room, other] = [await newRoom(), await newRoom()];
    const { id, code } = await invite(room);
    const tries = [
      [`${room}/members`, `${code}x`],
      [`${room}/members`, ''],
      [`${other}/members`, code],
      [`/v1/rooms/${newId('room')}/members`, code],
    ] as const;
    const shapes = new Set<string>();
    for (const [path, given] of tries) {
      const answer = await guest.admin.post(path, { code: given });
      expect(answer.status).toBe(404);
      shapes.add(JSON.stringify({ ...answer.body, request_id: null }));
    }
    expect(shapes.size).toBe(1);
    await api.db.invitation.update({ where: { id }, data: { expiresAt: new Date(Date.now() - 1_000) } });
    const expired = await expectStatus(410, guest.admin.post(`${room}/members`, { code }));
    expect(Object.keys(expired)).toEqual(Object.keys(JSON.parse([...shapes][0] as string)));
    await expectStatus(404, guest.member.get(room));
    await expectStatus(400, guest.admin.post(`${room}/members`, {}));
    await expectStatus(400, guest.admin.post(`${room}/members`, { code: 7 }));
  });

  test('is created by the host only', async () => {
    const room = await newRoom();
    await expectStatus(201, guest.admin.post(`${room}/members`, { code: (await invite(room)).code }));
    await expectStatus(403, guest.admin.post(`${room}/invitations`));
    await expectStatus(403, host.member.post(`${room}/invitations`));
    await expectStatus(404, stranger.admin.post(`${room}/invitations`));
  });

  test('is listed for the host with its state and without its code', async () => {
    const room = await newRoom();
    const [used, open, revoked] = [await invite(room), await invite(room), await invite(room)];
    await expectStatus(201, guest.admin.post(`${room}/members`, { code: used.code }));
    await expectStatus(204, host.admin.delete(`${room}/invitations/${revoked.id}`));
    const answer = await host.admin.get(`${room}/invitations`);
    const time = expect.stringMatching(/Z$/);
    const common = { room: room.slice('/v1/rooms/'.length), created_at: time, redeemed_by: null, redeemed_at: null };
    expect(answer.body.data).toEqual([
      { ...common, id: used.id, expires_at: used.expires_at, revoked: false, redeemed_by: guest.id, redeemed_at: time },
      { ...common, id: open.id, expires_at: open.expires_at, revoked: false },
      { ...common, id: revoked.id, expires_at: null, revoked: true },
    ]);
    expect(answer.text).not.toContain('dr_invite_');
    const first = await expectStatus(200, host.admin.get(`${room}/invitations?limit=1&order=desc`));
    expect(first.data).toMatchObject([{ id: revoked.id }]);
    const rest = await expectStatus(
      200,
      host.admin.get(`${room}/invitations?order=desc&cursor=${encodeURIComponent(first.next_cursor)}`),
    );
    expect(rest.data).toMatchObject([{ id: open.id }, { id: used.id }]);

    await expectStatus(403, host.member.get(`${room}/invitations`));
    expect(await expectStatus(403, guest.admin.get(`${room}/invitations`))).toMatchObject({ code: 'not_allowed' });
    await expectStatus(404, stranger.admin.get(`${room}/invitations`));
  });

  test('that is revoked gets the same answer as an expired invitation', async () => {
    const room = await newRoom();
    const [old, leaked] = [await invite(room), await invite(room)];
    await api.db.invitation.update({ where: { id: old.id }, data: { expiresAt: new Date(Date.now() - 1_000) } });
    for (const _ of [1, 2]) await expectStatus(204, host.admin.delete(`${room}/invitations/${leaked.id}`));
    // The revocation of an expired invitation changes nothing.
    await expectStatus(204, host.admin.delete(`${room}/invitations/${old.id}`));
    expect((await host.admin.get(`${room}/invitations`)).body.data).toMatchObject([
      { id: old.id, revoked: false },
      { id: leaked.id, revoked: true },
    ]);
    const [expired, revoked] = [
      await expectStatus(410, guest.admin.post(`${room}/members`, { code: old.code })),
      await expectStatus(410, guest.admin.post(`${room}/members`, { code: leaked.code })),
    ];
    expect({ ...revoked, request_id: null }).toEqual({ ...expired, request_id: null });
    await expectStatus(404, guest.member.get(room));
  });

  test('is revoked by the host only, in its own room, and only before it is used', async () => {
    const [room, other] = [await newRoom(), await newRoom()];
    const [used, open] = [await invite(room), await invite(room)];
    await expectStatus(201, guest.admin.post(`${room}/members`, { code: used.code }));
    expect(await expectStatus(409, host.admin.delete(`${room}/invitations/${used.id}`))).toMatchObject({
      code: 'conflict',
    });
    await expectStatus(403, host.member.delete(`${room}/invitations/${open.id}`));
    await expectStatus(403, guest.admin.delete(`${room}/invitations/${open.id}`));
    await expectStatus(404, stranger.admin.delete(`${room}/invitations/${open.id}`));
    const [elsewhere, unknown, malformed] = [
      await expectStatus(404, host.admin.delete(`${other}/invitations/${open.id}`)),
      await expectStatus(404, host.admin.delete(`${room}/invitations/${newId('inv')}`)),
      await expectStatus(404, host.admin.delete(`${room}/invitations/nothing`)),
    ];
    expect({ ...elsewhere, request_id: null }).toEqual({ ...unknown, request_id: null });
    expect({ ...malformed, request_id: null }).toEqual({ ...unknown, request_id: null });
    await expectStatus(201, stranger.admin.post(`${room}/members`, { code: open.code }));
  });

  test('that is revoked and redeemed at the same time is either revoked or redeemed', async () => {
    const room = await newRoom();
    for (let round = 0; round < 8; round += 1) {
      const { id, code } = await invite(room);
      const [redeemed, revoked] = await Promise.all([
        stranger.admin.post(`${room}/members`, { code }),
        host.admin.delete(`${room}/invitations/${id}`),
      ]);
      expect([
        [201, 409],
        [410, 204],
      ]).toContainEqual([redeemed.status, revoked.status]);
      const joined = redeemed.status === 201;
      const { data } = await expectStatus(200, host.admin.get(`${room}/invitations?order=desc&limit=1`));
      expect(data).toMatchObject([{ id, revoked: !joined, redeemed_by: joined ? stranger.id : null }]);
      if (joined) await expectStatus(204, stranger.admin.delete(`${room}/members/${stranger.id}`));
    }
  });

  test('is redeemed by one of two concurrent companies, and one company joins a room once', async () => {
    const room = await newRoom();
    const { code } = await invite(room);
    const race = await Promise.all([guest, stranger].map((company) => company.admin.post(`${room}/members`, { code })));
    expect(race.map((answer) => answer.status).toSorted()).toEqual([201, 410]);

    const second = await newRoom();
    const codes = [await invite(second), await invite(second), await invite(second)];
    const same = await Promise.all(
      codes.map((invitation) => guest.admin.post(`${second}/members`, { code: invitation.code })),
    );
    expect(same.map((answer) => answer.status).toSorted()).toEqual([201, 409, 409]);
    expect(
      await api.db.roomEvent.count({
        where: { type: 'member_joined', subjectId: guest.id, room: { id: second.slice('/v1/rooms/'.length) } },
      }),
    ).toBe(1);
    const unused = await api.db.invitation.count({
      where: { roomId: second.slice('/v1/rooms/'.length), redeemedAt: null },
    });
    expect(unused).toBe(2);
  });
});

test('a closed room refuses writes and can be read', async () => {
  const room = await newRoom();
  const { code } = await invite(room);
  await api.db.room.update({ where: { id: room.slice('/v1/rooms/'.length) }, data: { closedAt: new Date() } });
  const writes = [
    host.member.post(`${room}/events`, { type: 'message', text: 'hi' }),
    host.admin.patch(room, { name: 'x' }),
    host.admin.post(`${room}/invitations`),
    host.admin.post(`${room}/roster`, { agent: host.agentId }),
    guest.admin.post(`${room}/members`, { code }),
  ];
  for (const answer of await Promise.all(writes)) expect([answer.status, answer.body.code]).toEqual([409, 'conflict']);
  for (const path of ['', '/events', '/messages', '/members']) await expectStatus(200, host.member.get(room + path));
});

test('a company that left no longer sees the room', async () => {
  const room = await newRoom();
  await expectStatus(201, guest.admin.post(`${room}/members`, { code: (await invite(room)).code }));
  const roomId = room.slice('/v1/rooms/'.length);
  await api.db.roomMember.updateMany({ where: { roomId, companyId: guest.id }, data: { leftAt: new Date() } });
  await expectStatus(404, guest.member.get(room));
  await expectStatus(404, guest.member.get(`${room}/events`));
  await expectStatus(404, guest.member.post(`${room}/events`, { type: 'message', text: 'hi' }));
  expect((await guest.member.get('/v1/rooms?limit=200')).text).not.toContain(roomId);
  expect((await host.member.get(`${room}/members`)).body.data).toHaveLength(1);
  await expectStatus(201, guest.admin.post(`${room}/members`, { code: (await invite(room)).code }));
  await expectStatus(200, guest.member.get(room));
});

test('the operator sees all companies, and a company sees only itself', async () => {
  const operator = api.client(api.operatorKey);
  const { data } = await expectStatus(200, operator.get('/v1/companies'));
  expect(data.map((company: { slug: string }) => company.slug)).toEqual(['larkspur', 'tamarack', 'yarrow']);
  expect(await expectStatus(200, operator.get(`/v1/companies/${host.id}`))).toMatchObject({
    slug: 'larkspur',
    suspended_at: null,
  });
  for (const client of [host.admin, host.member, host.service, host.agent]) {
    await expectStatus(200, client.get(`/v1/companies/${host.id}`));
    const [foreign, unknown] = [
      await client.get(`/v1/companies/${guest.id}`),
      await client.get(`/v1/companies/${newId('co')}`),
    ];
    expect(foreign.status).toBe(404);
    expect({ ...foreign.body, request_id: null }).toEqual({ ...unknown.body, request_id: null });
  }
});
