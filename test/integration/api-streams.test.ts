// The feed of a room as a stream: no event is missed or repeated, and a slow reader does not delay other readers.

import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import {
  createClient,
  expectStatus,
  serveSecondApi,
  setUpRoom,
  startTestApi,
  type ApiClient,
  type Json,
  type TestApi,
  type TestRoom,
} from '../support/api';
import { openEvents, type EventReader } from '../support/event-source';
import { until } from '../support/run-waits';
import { createStreams, STREAM_SETTINGS } from '../../api/middleware/event-streams';

let api: TestApi;
let room: TestRoom;
let token: string;
const opened: EventReader[] = [];

beforeAll(async () => {
  api = await startTestApi({ streams: { heartbeatMs: 50, streamsPerKey: 4 } });
  room = await setUpRoom(api);
  token = await newToken(room.larkspur.admin);
});
afterEach(() => {
  for (const stream of opened.splice(0)) stream.close();
});
afterAll(() => api.close());

async function newToken(admin: ApiClient, body: object = { kind: 'service', name: 'reader' }): Promise<string> {
  return (await expectStatus(201, admin.post('/v1/keys', body))).token;
}

async function open(
  options: Parameters<typeof openEvents>[2] & { token?: string; query?: string; path?: string } = {},
): Promise<EventReader> {
  const url = `${api.url}${options.path ?? room.path}/events${options.query ?? ''}`;
  const stream = await openEvents(url, options.token ?? token, options);
  opened.push(stream);
  return stream;
}

const post = async (text: string, client = room.larkspur.member): Promise<Json> =>
  expectStatus(201, client.post(`${room.path}/events`, { type: 'message', text }));
const lastSeq = async (): Promise<number> => (await expectStatus(200, room.larkspur.member.get(room.path))).last_seq;
const fromNow = async (): Promise<{ lastEventId: string }> => ({ lastEventId: String(await lastSeq()) });

test('a stream begins with the first event and continues with new events', async () => {
  const { data: pages } = await expectStatus(200, room.larkspur.member.get(`${room.path}/events?limit=200`));
  const stream = await open();
  expect([stream.status, stream.headers['content-type']]).toEqual([200, 'text/event-stream; charset=utf-8']);
  await stream.received(pages.length);
  const posted = await post('new');
  const events = await stream.received(pages.length + 1);
  expect(events.slice(0, -1).map(({ data }) => data)).toEqual(pages);
  expect(events.at(-1)).toMatchObject({ id: String(posted.seq), event: 'message', data: { id: posted.event } });
});

test('a stream continues after the last id or after the requested number', async () => {
  const first = await post('one');
  const stream = await open({ lastEventId: String(first.seq - 1) });
  expect((await stream.received(1))[0]?.data.id).toBe(first.event);
  stream.close();
  const missed = [await post('two'), await post('three'), await post('four')];
  for (const options of [{ lastEventId: String(first.seq) }, { query: `?after=${first.seq}` }]) {
    const again = await open(options);
    const later = await post('five');
    const events = await again.received(4);
    expect(events.map(({ data }) => data.id).slice(0, 3)).toEqual(missed.map(({ event }) => event));
    expect(events.some(({ data }) => data.id === later.event) || events.length === 4).toBe(true);
    again.close();
    missed.push(later);
    missed.length = 3;
  }
});

test('a client that connects again gets exactly the events that it missed, once', async () => {
  const stream = await open(await fromNow());
  const before = await post('before');
  await stream.received(1);
  stream.close();
  const missed = [await post('m1'), await post('m2'), await post('m3')];
  const again = await open({ lastEventId: String(before.seq) });
  const events = await again.received(3);
  await again.receivedComments(2);
  expect(events.map(({ data }) => data.data.text)).toEqual(['m1', 'm2', 'm3']);
  expect(events.map(({ id }) => id)).toEqual(missed.map(({ seq }) => String(seq)));
});

test('every subscriber gets every event once, in the same order, during concurrent writes', async () => {
  const start = await fromNow();
  const streams = await Promise.all([open(start), open(start), open(start)]);
  const writers = Array.from({ length: 8 }, async (_, writer) => {
    for (let n = 0; n < 10; n += 1) await post(`${writer}.${n}`);
  });
  await Promise.all(writers);
  const expected = Array.from({ length: 80 }, (_, n) => String(Number(start.lastEventId) + 1 + n));
  for (const stream of streams) {
    expect((await stream.received(80)).map(({ id }) => id)).toEqual(expected);
  }
});

test('an event whose transaction commits late is not skipped', async () => {
  const stream = await open(await fromNow());
  const slow = new pg.Client({ connectionString: api.databaseUrl });
  await slow.connect();
  try {
    await slow.query('BEGIN');
    // As in an append: the number is assigned under the room's lock, which is held until the commit.
    await slow.query('UPDATE rooms SET last_seq = last_seq + 1 WHERE id = $1', [room.id]);
    await slow.query(
      `INSERT INTO room_events (room_id, seq, id, type, author_kind, subject_id, data)
       SELECT id, last_seq, 'evt_01h2xcejqtf2nbrexx3vqjhp41', 'room_paused', 'system', id,
              jsonb_build_object('room', id) FROM rooms WHERE id = $1`,
      [room.id],
    );
    const later = post('after the slow one');
    await stream.receivedComments(stream.comments() + 2);
    expect(stream.events).toEqual([]);
    await slow.query('COMMIT');
    await later;
  } finally {
    await slow.end();
  }
  const events = await stream.received(2);
  expect(events.map(({ data }) => data.type)).toEqual(['room_paused', 'message']);
});

test.each([
  ['8,100 characters', 'x'.repeat(8_100)],
  ['3,000 emoji', '🚣'.repeat(3_000)],
])('a message of %s is delivered whole', async (_size, text) => {
  const stream = await open(await fromNow());
  await post(text);
  expect((await stream.received(1))[0]?.data.data.text).toBe(text);
});

test.each([
  ['of another format', 'evt_01h2xcejqtf2nbrexx3vqjhp41'],
  ['in the future', '9000000000000000000'],
  ['above the highest possible number', '9'.repeat(40)],
])('an id %s gets one resync, and the stream continues from now', async (_what, lastEventId) => {
  const now = String(await lastSeq());
  const stream = await open({ lastEventId });
  expect((await stream.received(1))[0]).toEqual({ id: now, event: 'resync', data: { after: Number(now) } });
  const posted = await post('after the resync');
  await stream.received(2);
  await stream.receivedComments(stream.comments() + 2);
  expect(stream.events.map(({ id }) => id)).toEqual([now, String(posted.seq)]);
});

test('an old id is always valid, because the whole feed of a room is stored', async () => {
  const stream = await open({ lastEventId: '0' });
  expect((await stream.received(1))[0]?.id).toBe('1');
});

test('an idle stream sends heartbeats', async () => {
  const stream = await open(await fromNow());
  await stream.receivedComments(3);
  expect(stream.events).toEqual([]);
});

test('a request that does not prefer a stream gets a page', async () => {
  for (const accept of ['*/*', 'application/json', 'application/json, text/event-stream;q=0.5', 'text/html']) {
    const answer = await room.larkspur.member.send('GET', `${room.path}/events?limit=1`, { headers: { accept } });
    expect([answer.status, answer.headers.get('content-type')]).toEqual([200, 'application/json; charset=utf-8']);
  }
  const head = await room.larkspur.member.send('HEAD', `${room.path}/events`, {
    headers: { accept: 'text/event-stream' },
  });
  expect(head.status).toBe(200);
});

test('a refused request gets a problem and no stream', async () => {
  const { admin_key } = await expectStatus(201, api.client(api.operatorKey).post('/v1/companies', { name: 'Alder' }));
  const strange = await open({ token: admin_key.token });
  expect([strange.status, strange.headers['content-type']]).toEqual([404, 'application/problem+json; charset=utf-8']);
  expect((await open({ token: 'dr_service_wrong' })).status).toBe(401);
  expect((await open({ query: '?after=x' })).status).toBe(400);
});

test('a key has a limited number of streams, and a closed stream frees its slot', async () => {
  const own = await newToken(room.larkspur.admin);
  const streams = await Promise.all(Array.from({ length: 4 }, () => open({ token: own })));
  const more = await open({ token: own });
  expect([more.status, Number(more.headers['retry-after'])]).toEqual([429, expect.any(Number)]);
  expect((await open()).status).toBe(200);
  streams[0]?.close();
  let again = await open({ token: own });
  while (again.status === 429) {
    await sleep(10);
    again = await open({ token: own });
  }
  expect(again.status).toBe(200);
});

describe('a stream ends, and sends nothing more, after', () => {
  const cases: readonly (readonly [string, (own: TestRoom, keyId: string) => Promise<unknown>])[] = [
    ['the revocation of its key', (own, keyId) => expectStatus(204, own.tamarack.admin.delete(`/v1/keys/${keyId}`))],
    [
      'the end of the membership',
      (own) => expectStatus(204, own.larkspur.admin.delete(`${own.path}/members/${own.tamarack.id}`)),
    ],
    [
      'the removal of the agent from the roster',
      (own) => expectStatus(200, own.tamarack.admin.delete(`${own.path}/roster/${own.tamarack.agentId}`)),
    ],
    [
      'the suspension of the company',
      (own) => expectStatus(200, api.client(api.operatorKey).post(`/v1/companies/${own.tamarack.id}/suspend`)),
    ],
  ];
  test.each(cases)('%s', async (_what, end) => {
    const own = await setUpRoom(api, { suffix: `-s${cases.findIndex(([, run]) => run === end)}` });
    const body = { kind: 'agent', agent: own.tamarack.agentId, name: 'reader' };
    const key = await expectStatus(201, own.tamarack.admin.post('/v1/keys', body));
    const stream = await open({ token: key.token, path: own.path });
    const before = (await stream.received(1)).length;
    await end(own, key.id);
    await expectStatus(201, own.larkspur.member.post(`${own.path}/events`, { type: 'message', text: 'not for you' }));
    await stream.ended;
    expect(stream.events.slice(before).map(({ data }) => data.data.text)).not.toContain('not for you');
  });

  test('the shutdown of the API', async () => {
    const streams = createStreams({ db: api.db, databaseUrl: api.databaseUrl });
    const served = await serveSecondApi(api, { streams });
    const stream = await openEvents(`${served.url}${room.path}/events`, token);
    await stream.received(1);
    await streams.close();
    await stream.ended;
    const late = await createClient(served.url, token).send('GET', `${room.path}/events`, {
      headers: { accept: 'text/event-stream' },
    });
    expect([late.status, late.body.code]).toEqual([503, 'unavailable']);
    await served.close();
  });
});

test('a lost listener connects again, and events written meanwhile arrive', async () => {
  const stream = await open(await fromNow());
  await post('heard');
  await stream.received(1);
  const listeners = () => api.db.$queryRaw<{ pid: number }[]>`
    SELECT pid FROM pg_stat_activity
    WHERE datname = current_database() AND query LIKE 'LISTEN durable_room_events%'`;
  // Listeners of closed streams may still be open for a moment.
  const { pid } = await until('one listener to be left', async () => {
    const [one, another] = await listeners();
    return another === undefined && one;
  });
  expect(await api.db.$queryRaw`SELECT pg_terminate_backend(${pid}) AS killed`).toEqual([{ killed: true }]);
  await post('unheard');
  expect((await stream.received(2)).map(({ data }) => data.data.text)).toEqual(['heard', 'unheard']);
});

test('without a listener, a stream finds new events by polling', async () => {
  const streams = createStreams({ db: api.db }, { ...STREAM_SETTINGS, pollMs: 50 });
  const served = await serveSecondApi(api, { streams });
  const stream = await openEvents(`${served.url}${room.path}/events`, token, await fromNow());
  await post('found');
  expect((await stream.received(1))[0]?.data.data.text).toBe('found');
  stream.close();
  await streams.close();
  await served.close();
});

test('a reader that stops reading is disconnected, and other readers get every event', async () => {
  const own = await setUpRoom(api, { suffix: '-slow' });
  const reader = await newToken(own.larkspur.admin);
  // Only this second server has the short limit. The quick reader uses the first server, so a delay of this process does
  // not disconnect it.
  const settings = { ...STREAM_SETTINGS, streamsPerKey: 4, slowMs: 300 };
  const streams = createStreams({ db: api.db, databaseUrl: api.databaseUrl }, settings);
  const strict = await serveSecondApi(api, { streams });
  const openStrict = async (): Promise<EventReader> => {
    const stream = await openEvents(`${strict.url}${own.path}/events`, reader);
    opened.push(stream);
    return stream;
  };
  const [slow, quick] = [await openStrict(), await open({ token: reader, path: own.path })];
  slow.stopReading();
  // More than all buffers between the server and the reader.
  const text = 'x'.repeat(30_000);
  const batch = Array.from({ length: 30 }, () => ({ type: 'message', text }));
  for (let n = 0; n < 12; n += 1) await expectStatus(201, own.larkspur.member.post(`${own.path}/events`, batch));
  const { last_seq: last } = await expectStatus(200, own.larkspur.member.get(own.path));
  await quick.received(last);
  expect(quick.events.map(({ id }) => Number(id))).toEqual(Array.from({ length: last }, (_, n) => n + 1));
  // The slow reader is disconnected: its slot is free again.
  for (;;) {
    const others = await Promise.all(Array.from({ length: 4 }, openStrict));
    for (const stream of others) stream.close();
    if (others.every(({ status }) => status === 200)) break;
    await sleep(20);
  }
  expect(slow.events.length).toBeLessThan(last);
  await streams.close();
  await strict.close();
});

test('private memory is streamed with its content to its company and without it to others', async () => {
  const [ours, theirs] = [
    await open(await fromNow()),
    await open({ ...(await fromNow()), token: await newToken(room.tamarack.admin) }),
  ];
  const entry = { type: 'memory', category: 'fact', content: 'canary', visibility: 'private' };
  await expectStatus(201, room.larkspur.member.post(`${room.path}/events`, entry));
  expect((await ours.received(1))[0]?.data).toMatchObject({ author: { name: 'Member' }, data: { content: 'canary' } });
  const [seen] = await theirs.received(1);
  expect(seen?.data).toMatchObject({ author: null, data: { visibility: 'private', company: room.larkspur.id } });
  expect(JSON.stringify(theirs.events)).not.toContain('canary');
});
