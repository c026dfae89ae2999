// The feed of a company: every event of its rooms, no event of other rooms, and no event is missed.

import {
  expectStatus,
  setUpCompany,
  setUpRoom,
  startTestApi,
  type ApiClient,
  type Json,
  type RoomCompany,
  type TestApi,
} from '../support/api';
import { openEvents } from '../support/event-source';

let api: TestApi;
let company: RoomCompany;
let other: RoomCompany;
beforeAll(async () => {
  api = await startTestApi({ streams: { heartbeatMs: 50 } });
  company = await setUpCompany(api, 'larkspur', 'Larkspur', 'scribe');
  other = await setUpCompany(api, 'tamarack', 'Tamarack', 'scout');
});
afterAll(() => api.close());

let rooms = 0;
async function openRoom(of = company): Promise<string> {
  rooms += 1;
  return (await expectStatus(201, of.admin.post('/v1/rooms', { name: `Room ${rooms}` }))).id;
}
const post = async (room: string, text: string, client: ApiClient = company.member): Promise<Json> =>
  expectStatus(201, client.post(`/v1/rooms/${room}/events`, { type: 'message', text }));

async function readFeed(cursor: string | null, limit = 50, client: ApiClient = company.member) {
  const events: Json[] = [];
  for (;;) {
    const query = `?limit=${limit}${cursor === null ? '' : `&cursor=${cursor}`}`;
    const page: Json = await expectStatus(200, client.get(`/v1/feed${query}`));
    events.push(...page.data);
    cursor = page.next_cursor as string;
    if (page.data.length < limit) return { events, cursor };
  }
}
const positionsOf = (events: Json[]): string[] => events.map(({ room, seq }) => `${room} ${seq}`).sort();

test('the feed of a company without rooms is empty, and its cursor continues with later events', async () => {
  const alone = await setUpCompany(api, 'alder', 'Alder', 'clerk');
  const { events, cursor } = await readFeed(null, 50, alone.member);
  expect(events).toEqual([]);
  const room = await openRoom(alone);
  expect((await readFeed(cursor, 50, alone.member)).events).toMatchObject([{ type: 'member_joined', room, seq: 1 }]);
});

test('the feed has every event once, in the order of each room, for every page size', async () => {
  const ids = [await openRoom(), await openRoom(), await openRoom()];
  for (let n = 0; n < 7; n += 1) await Promise.all(ids.map((room) => post(room, `${n}`)));
  const whole = await readFeed(null, 200);
  for (const limit of [1, 4, 200]) {
    const { events } = await readFeed(null, limit);
    expect(positionsOf(events)).toEqual(positionsOf(whole.events));
    for (const room of ids) {
      const seqs = events.filter((event) => event.room === room).map(({ seq }) => seq);
      expect(seqs).toEqual([1, 2, 3, 4, 5, 6, 7, 8]);
    }
  }
});

test('a cursor continues with later events of old and new rooms, without repeats', async () => {
  const room = await openRoom();
  const { cursor } = await readFeed(null);
  expect((await readFeed(cursor)).events).toEqual([]);
  const added = await openRoom();
  const posted = [await post(room, 'old room'), await post(added, 'new room')];
  const { events } = await readFeed(cursor, 1);
  expect(events.map(({ id }) => id).sort()).toEqual(
    [posted[0].event, posted[1].event, events.find(({ type }) => type === 'member_joined')?.id].sort(),
  );
});

test('an event that commits late is not skipped, and other rooms continue meanwhile', async () => {
  const [slow, quick] = [await openRoom(), await openRoom()];
  const { cursor } = await readFeed(null);
  let later = cursor;
  await api.db.transaction(async (tx) => {
    await tx.$executeRaw`UPDATE rooms SET last_seq = last_seq + 1 WHERE id = ${slow}`;
    await tx.$executeRaw`
      INSERT INTO room_events (room_id, seq, id, type, author_kind, subject_id, data)
      VALUES (${slow}, 2, 'evt_01h2xcejqtf2nbrexx3vqjhp41', 'room_paused', 'system', ${slow},
              jsonb_build_object('room', ${slow}::text))`;
    await post(quick, 'meanwhile');
    const seen = await readFeed(cursor);
    expect(seen.events.map(({ room }) => room)).toEqual([quick]);
    later = seen.cursor;
  });
  expect((await readFeed(later)).events).toMatchObject([{ room: slow, type: 'room_paused' }]);
});

test('the feed shows only rooms of the company, and to an agent only rooms whose roster has the agent', async () => {
  const shared = await setUpRoom(api, { suffix: '-feed' });
  const theirs = await openRoom(other);
  await post(theirs, 'canary', other.member);
  expect(JSON.stringify(await readFeed(null))).not.toContain(theirs);
  const elsewhere = await expectStatus(201, shared.larkspur.admin.post('/v1/rooms', { name: 'Elsewhere' }));
  const { events } = await readFeed(null, 200, shared.larkspur.agent);
  expect(new Set(events.map(({ room }) => room))).toEqual(new Set([shared.id]));
  const ofPeople = await readFeed(null, 200, shared.larkspur.member);
  expect(ofPeople.events.map(({ room }) => room)).toContain(elsewhere.id);
});

test.each(['x', 'MTo', 'MTo=', Buffer.from('1:nonsense').toString('base64url'), 'a'.repeat(3_000)])(
  'an invalid cursor is refused: %.20s',
  async (cursor) => {
    const answer = await company.member.get(`/v1/feed?cursor=${cursor}`);
    // This cursor is valid: it names no room and means the start of the feed.
    if (cursor === 'MTo') expect(answer.status).toBe(200);
    else expect([answer.status, answer.body.parameter]).toEqual([400, 'cursor']);
  },
);

describe('the feed as a stream', () => {
  const open = async (lastEventId?: string) => {
    const { token } = await expectStatus(201, company.admin.post('/v1/keys', { kind: 'service', name: 'reader' }));
    return openEvents(`${api.url}/v1/feed`, token, lastEventId === undefined ? {} : { lastEventId });
  };

  test('the id of each event is a cursor that continues after this event, also on pages', async () => {
    const room = await openRoom();
    const { cursor } = await readFeed(null);
    const stream = await open(cursor);
    const posted = [await post(room, 'a'), await post(await openRoom(), 'b'), await post(room, 'c')];
    const events = [...(await stream.received(4))];
    stream.close();
    expect(positionsOf(events.map(({ data }) => data))).toEqual(positionsOf((await readFeed(cursor)).events));
    expect(events.map(({ data }) => data.id)).toEqual(expect.arrayContaining(posted.map(({ event }) => event)));
    for (const [n, { id }] of events.entries()) {
      const rest = await readFeed(id as string);
      expect(positionsOf(rest.events)).toEqual(positionsOf(events.slice(n + 1).map(({ data }) => data)));
    }
  });

  test('an id that is invalid or ahead of a room gets one resync', async () => {
    const room = await openRoom();
    const ahead = Buffer.from(`1:${room.slice('room_'.length)}99`).toString('base64url');
    for (const lastEventId of ['nonsense', ahead]) {
      const stream = await open(lastEventId);
      const [resync] = await stream.received(1);
      expect(resync).toMatchObject({ event: 'resync', id: resync?.data.after });
      const posted = await post(room, 'after');
      expect((await stream.received(2))[1]?.data.id).toBe(posted.event);
      stream.close();
    }
  });
});
