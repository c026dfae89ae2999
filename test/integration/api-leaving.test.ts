// Leaving, closing and removing through the API: the allowed roles, the answers, and the reads that still work.

import { expectStatus, setUpRoom, startTestApi, type TestApi, type TestRoom } from '../support/api';

let api: TestApi;
let room: TestRoom;
let rooms = 0;

beforeAll(async () => {
  api = await startTestApi();
});
beforeEach(async () => {
  rooms += 1;
  room = await setUpRoom(api, { suffix: `-${rooms}` });
});
afterAll(() => api.close());

const membership = (of: 'larkspur' | 'tamarack'): string => `${room.path}/members/${room[of].id}`;
const rosterEntry = (of: 'larkspur' | 'tamarack'): string => `${room.path}/roster/${room[of].agentId}`;

describe('a membership', () => {
  test('ends if the company leaves: it no longer sees the room, its messages stay, and it can be invited again', async () => {
    const { tamarack, larkspur } = room;
    await expectStatus(201, tamarack.member.post(`${room.path}/events`, { type: 'message', text: 'we were here' }));
    expect((await tamarack.admin.delete(membership('tamarack'))).status).toBe(204);

    for (const key of [tamarack.admin, tamarack.member, tamarack.service, tamarack.agent]) {
      expect((await key.get(room.path)).status).toBe(404);
      expect((await key.post(`${room.path}/events`, { type: 'message', text: 'hello?' })).status).toBe(404);
    }
    const { data } = await expectStatus(200, larkspur.member.get(`${room.path}/events`));
    expect(data.map((event: { type: string }) => event.type).slice(-3)).toEqual([
      'message',
      'agent_removed',
      'member_left',
    ]);
    const members = await expectStatus(200, larkspur.member.get(`${room.path}/members`));
    expect(members.data).toHaveLength(1);

    const { code } = await expectStatus(201, larkspur.admin.post(`${room.path}/invitations`));
    await expectStatus(201, tamarack.admin.post(`${room.path}/members`, { code }));
    await expectStatus(201, tamarack.admin.post(`${room.path}/roster`, { agent: tamarack.agentId }));
  });

  test("is ended by the host's admin too, but not by a member, a service or an agent", async () => {
    const { larkspur, tamarack } = room;
    expect((await tamarack.admin.delete(membership('larkspur'))).body.code).toBe('conflict');
    for (const key of [tamarack.member, tamarack.service, tamarack.agent, larkspur.member]) {
      expect((await key.delete(membership('tamarack'))).status).toBe(403);
    }
    expect((await larkspur.admin.delete(membership('larkspur'))).body.code).toBe('conflict');
    expect((await larkspur.admin.delete(membership('tamarack'))).status).toBe(204);
    expect((await larkspur.admin.delete(membership('tamarack'))).status).toBe(404);
  });
});

describe('an agent', () => {
  test('is removed by its own company or by the host, and its name is free again', async () => {
    const { larkspur, tamarack } = room;
    expect((await tamarack.admin.delete(rosterEntry('larkspur'))).status).toBe(403);
    expect((await larkspur.member.delete(rosterEntry('larkspur'))).status).toBe(403);
    expect(await expectStatus(200, larkspur.admin.delete(rosterEntry('tamarack')))).toEqual({
      room: room.id,
      agent: tamarack.agentId,
      company: tamarack.id,
    });
    expect((await larkspur.admin.delete(rosterEntry('tamarack'))).status).toBe(404);
    expect((await tamarack.agent.get(room.path)).status).toBe(404);

    const namesake = await expectStatus(
      201,
      larkspur.admin.post('/v1/agents', { slug: 'scout', name: 'Scout', always_on: false }),
    );
    await expectStatus(201, larkspur.admin.post(`${room.path}/roster`, { agent: namesake.id }));
    const back = await tamarack.admin.post(`${room.path}/roster`, { agent: tamarack.agentId });
    expect(back.body.code).toBe('conflict');
  });
});

describe('a room', () => {
  test('is closed by its host permanently: reads still work, and every write is refused', async () => {
    const { larkspur, tamarack } = room;
    expect((await tamarack.admin.post(`${room.path}/close`)).status).toBe(403);
    expect((await larkspur.member.post(`${room.path}/close`)).status).toBe(403);
    const { code } = await expectStatus(201, larkspur.admin.post(`${room.path}/invitations`));
    const closed = await expectStatus(200, larkspur.admin.post(`${room.path}/close`));
    expect(closed.closed_at).not.toBeNull();

    const writes = [
      larkspur.admin.post(`${room.path}/close`),
      larkspur.member.post(`${room.path}/events`, { type: 'message', text: 'hello?' }),
      tamarack.admin.post(`${room.path}/roster`, { agent: tamarack.agentId }),
      larkspur.admin.patch(room.path, { name: 'Other' }),
      larkspur.admin.post(`${room.path}/invitations`),
      tamarack.admin.delete(membership('tamarack')),
      tamarack.admin.delete(rosterEntry('tamarack')),
    ];
    for (const answer of await Promise.all(writes))
      expect([answer.status, answer.body.code]).toEqual([409, 'conflict']);
    expect((await tamarack.admin.post(`${room.path}/members`, { code })).status).toBe(409);
    for (const key of [larkspur.member, tamarack.service, tamarack.agent]) {
      expect((await key.get(`${room.path}/events`)).body.data.at(-1).type).toBe('room_closed');
    }
  });
});
