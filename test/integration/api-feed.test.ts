// A company's own feed: every room that it is in, none that it is not, nothing missed.

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
const say = async (room: string, text: string, client: ApiClient = company.member): Promise<Json> =>
  expectStatus(201, client.post(`/v1/rooms/${room}/events`, { type: 'message', text }));

async function readOn(cursor: string | null, limit = 50, client: ApiClient = company.member) {
  const events: Json[] = [];
  for (;;) {
    const query = `?limit=${limit}${cursor === null ? '' : `&cursor=${cursor}`}`;
    const page: Json = await expectStatus(200, client.get(`/v1/feed${query}`));
    events.push(...page.data);
    cursor = page.next_cursor as string;
    if (page.data.length < limit) return { events, cursor };
  }
}
const placesOf = (events: Json[]): string[] => events.map(({ room, seq }) => `${room} ${seq}`).sort();

test('of a company in no room is empty, and its cursor is where to look again', async () => {
  const alone = await setUpCompany(api, 'alder', 'Alder', 'clerk');
  const { events, cursor } = await readOn(null, 50, alone.member);
  expect(events).toEqual([]);
  const room = await openRoom(alone);
  expect((await readOn(cursor, 50, alone.member)).events).toMatchObject([{ type: 'member_joined', room, seq: 1 }]);
});

test('has all events of all rooms once, each room’s in its order, however it is paged', async () => {
  const ids = [await openRoom(), await openRoom(), await openRoom()];
  for (let n = 0; n < 7; n += 1) await Promise.all(ids.map((room) => say(room, `${n}`)));
  const whole = await readOn(null, 200);
  for (const limit of [1, 4, 200]) {
    const { events } = await readOn(null, limit);
    expect(placesOf(events)).toEqual(placesOf(whole.events));
    for (const room of ids) {
      const seqs = events.filter((event) => event.room === room).map(({ seq }) => seq);
      expect(seqs).toEqual([1, 2, 3, 4, 5, 6, 7, 8]);
    }
  }
});

test('goes on from its cursor: what came since, in rooms old and new, and nothing again', async () => {
  const room = await openRoom();
  const { cursor } = await readOn(null);
  expect((await readOn(cursor)).events).toEqual([]);
  const added = await openRoom();
  const posted = [await say(room, 'old room'), await say(added, 'new room')];
  const { events } = await readOn(cursor, 1);
  expect(events.map(({ id }) => id).sort()).toEqual(
    [posted[0].event, posted[1].event, events.find(({ type }) => type === 'member_joined')?.id].sort(),
  );
});

test('does not pass over what commits late, while other rooms go on', async () => {
  const [slow, quick] = [await openRoom(), await openRoom()];
  const { cursor } = await readOn(null);
  let later = cursor;
  await api.db.transaction(async (tx) => {
    await tx.$executeRaw`UPDATE rooms SET last_seq = last_seq + 1 WHERE id = ${slow}`;
    await tx.$executeRaw`
      INSERT INTO room_events (room_id, seq, id, type, author_kind, subject_id, data)
      VALUES (${slow}, 2, 'evt_01h2xcejqtf2nbrexx3vqjhp41', 'room_paused', 'system', ${slow},
              jsonb_build_object('room', ${slow}::text))`;
    await say(quick, 'meanwhile');
    const seen = await readOn(cursor);
    expect(seen.events.map(({ room }) => room)).toEqual([quick]);
    later = seen.cursor;
  });
  expect((await readOn(later)).events).toMatchObject([{ room: slow, type: 'room_paused' }]);
});

test('shows nothing of rooms that the company is not in, nor an agent those whose roster it is not on', async () => {
  const shared = await setUpRoom(api, { suffix: '-feed' });
  const theirs = await openRoom(other);
  await say(theirs, 'canary', other.member);
  expect(JSON.stringify(await readOn(null))).not.toContain(theirs);
  const elsewhere = await expectStatus(201, shared.larkspur.admin.post('/v1/rooms', { name: 'Elsewhere' }));
  const { events } = await readOn(null, 200, shared.larkspur.agent);
  expect(new Set(events.map(({ room }) => room))).toEqual(new Set([shared.id]));
  const ofPeople = await readOn(null, 200, shared.larkspur.member);
  expect(ofPeople.events.map(({ room }) => room)).toContain(elsewhere.id);
});

test.each(['x', 'MTo', 'MTo=', Buffer.from('1:nonsense').toString('base64url'), 'a'.repeat(3_000)])(
  'a cursor that is none is refused: %.20s',
  async (cursor) => {
    const answer = await company.member.get(`/v1/feed?cursor=${cursor}`);
    // An empty one is a cursor too: at the start of everything.
    if (cursor === 'MTo') expect(answer.status).toBe(200);
    else expect([answer.status, answer.body.parameter]).toEqual([400, 'cursor']);
  },
);

describe('as a stream', () => {
  const open = async (lastEventId?: string) => {
    const { token } = await expectStatus(201, company.admin.post('/v1/keys', { kind: 'service', name: 'reader' }));
    return openEvents(`${api.url}/v1/feed`, token, lastEventId === undefined ? {} : { lastEventId });
  };

  test('the id of each event is the cursor behind it, on the stream and on pages alike', async () => {
    const room = await openRoom();
    const { cursor } = await readOn(null);
    const stream = await open(cursor);
    const posted = [await say(room, 'a'), await say(await openRoom(), 'b'), await say(room, 'c')];
    const events = [...(await stream.received(4))];
    stream.close();
    expect(placesOf(events.map(({ data }) => data))).toEqual(placesOf((await readOn(cursor)).events));
    expect(events.map(({ data }) => data.id)).toEqual(expect.arrayContaining(posted.map(({ event }) => event)));
    for (const [n, { id }] of events.entries()) {
      const rest = await readOn(id as string);
      expect(placesOf(rest.events)).toEqual(placesOf(events.slice(n + 1).map(({ data }) => data)));
    }
  });

  test('an id that is none, or ahead of a room, is answered with one resync', async () => {
    const room = await openRoom();
    const ahead = Buffer.from(`1:${room.slice('room_'.length)}99`).toString('base64url');
    for (const lastEventId of ['nonsense', ahead]) {
      const stream = await open(lastEventId);
      const [resync] = await stream.received(1);
      expect(resync).toMatchObject({ event: 'resync', id: resync?.data.after });
      const posted = await say(room, 'after');
      expect((await stream.received(2))[1]?.data.id).toBe(posted.event);
      stream.close();
    }
  });
});
