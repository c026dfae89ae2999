// Paging: every row appears once, in both directions, even if rows are added or deleted between pages.

import { RoomDraft, type Author } from '../../prisma/store/rooms/room-draft';
import { newId } from '../../prisma/store/db/ids';
import { stageMemory } from '../../prisma/store/rooms/memory';
import { stageMessage } from '../../prisma/store/rooms/messages';
import { lockRoomForWrite } from '../../prisma/store/rooms/roster';
import {
  expectStatus,
  setUpRoom,
  startTestApi,
  type ApiClient,
  type Json,
  type TestApi,
  type TestRoom,
} from '../support/api';

let api: TestApi;
let room: TestRoom;
let author: Author;

beforeAll(async () => {
  api = await startTestApi();
  room = await setUpRoom(api);
  author = { kind: 'person', id: newId('key'), name: 'Ada', companyId: room.larkspur.id };
});
afterAll(() => api.close());

/** Writes messages and memory in one transaction, so that all have the same time. */
async function writeAtOnce(count: number): Promise<{ messages: string[]; memory: string[] }> {
  return api.db.transaction(async (tx) => {
    const locked = await lockRoomForWrite(tx, room.id, author.companyId);
    const draft = new RoomDraft(room.id);
    const messages: string[] = [];
    const memory: string[] = [];
    for (let n = 0; n < count; n += 1) {
      const message = { author, text: `${n}`, mentions: [], hop: 0, runId: null, refersTo: null };
      messages.push((await stageMessage(tx, draft, locked, message)).messageId);
      const entry = { author, category: 'fact', tags: [], content: `${n}`, visibility: 'shared', runId: null } as const;
      memory.push(stageMemory(draft, room.id, entry).memoryId);
    }
    await draft.append(tx);
    return { messages, memory };
  });
}

/** Reads all ids of a list page by page, and calls `between` after each page. */
async function walk(
  client: ApiClient,
  path: string,
  query: string,
  between: (page: Json[]) => Promise<void>,
): Promise<string[]> {
  const ids: string[] = [];
  let cursor: string | null = null;
  do {
    const at: string = cursor === null ? '' : `&cursor=${encodeURIComponent(cursor)}`;
    const body: Json = await expectStatus(200, client.get(`${path}?${query}${at}`));
    ids.push(...body.data.map((row: Json) => row.id));
    await between(body.data);
    cursor = body.next_cursor;
  } while (cursor !== null);
  return ids;
}

test.each(['messages', 'memory'] as const)('%s of one transaction appear once in both orders', async (kind) => {
  const written = (await writeAtOnce(50))[kind];
  const post = async (): Promise<void> => {
    for (let n = 0; n < 3; n += 1) {
      const event =
        kind === 'messages'
          ? { type: 'message', text: 'more' }
          : { type: 'memory', category: 'other', content: 'more' };
      await expectStatus(201, room.larkspur.member.post(`${room.path}/events`, event));
    }
  };
  let posted = 0;
  const sometimes = async (): Promise<void> => {
    posted += 1;
    if (posted % 3 === 1 && posted < 20) await post();
  };
  const path = `${room.path}/${kind}`;
  for (const order of ['asc', 'desc']) {
    const ids = await walk(room.larkspur.member, path, `limit=7&order=${order}`, sometimes);
    expect(new Set(ids).size).toBe(ids.length);
    const seen = ids.filter((id) => written.includes(id));
    expect(seen).toEqual(order === 'asc' ? written : written.toReversed());
  }
});

test('every event of a growing feed appears once, by cursor and by number', async () => {
  const { messages } = await writeAtOnce(50);
  const subjects = async (next: (last: Json, cursor: string | null) => string): Promise<string[]> => {
    const seen: string[] = [];
    let query = 'limit=7';
    let grown = 0;
    for (;;) {
      const body: Json = await expectStatus(200, room.tamarack.member.get(`${room.path}/events?${query}`));
      seen.push(...body.data.map((event: Json) => event.data.id ?? event.id));
      if (grown < 9)
        await expectStatus(201, room.larkspur.member.post(`${room.path}/events`, { type: 'message', text: 'more' }));
      grown += 1;
      if (body.data.length < 7) {
        expect(body.next_cursor).toBeNull();
        return seen;
      }
      expect(body.next_cursor).not.toBeNull();
      query = `limit=7&${next(body.data.at(-1), body.next_cursor)}`;
    }
  };
  for (const next of [
    (last: Json) => `after=${last.seq}`,
    (_: Json, cursor: string | null) => `cursor=${encodeURIComponent(cursor ?? '')}`,
  ]) {
    const seen = await subjects(next);
    expect(new Set(seen).size).toBe(seen.length);
    expect(seen.filter((id) => messages.includes(id))).toEqual(messages);
  }
  const { last_seq } = (await room.larkspur.member.get(room.path)).body;
  expect(await expectStatus(200, room.larkspur.member.get(`${room.path}/events?after=${last_seq}`))).toEqual({
    data: [],
    next_cursor: null,
  });
  expect((await room.larkspur.member.get(`${room.path}/events?after=9223372036854775807`)).body.data).toEqual([]);
  for (const query of [
    'after=-1',
    'after=x',
    'after=9223372036854775808',
    'after=1&cursor=MQ',
    'order=desc',
    'after=',
    'cursor=x',
  ]) {
    expect((await room.larkspur.member.get(`${room.path}/events?${query}`)).status).toBe(400);
  }
});

test('a list continues if the row of the cursor is deleted', async () => {
  const { memory } = await writeAtOnce(20);
  const ids = await walk(room.larkspur.member, `${room.path}/memory`, 'limit=7', async (page) => {
    const last = page.at(-1)?.id;
    if (memory.includes(last) && last !== memory.at(-1)) await api.db.memoryEntry.delete({ where: { id: last } });
  });
  expect(new Set(ids).size).toBe(ids.length);
  expect(ids.filter((id) => memory.includes(id))).toEqual(memory);
});

test('every list has pages', async () => {
  const admin = room.larkspur.admin;
  for (let n = 0; n < 4; n += 1) {
    const agent = await expectStatus(201, admin.post('/v1/agents', { name: `Clerk ${n}`, always_on: false }));
    await expectStatus(201, admin.post(`${room.path}/roster`, { agent: agent.id }));
    await expectStatus(201, admin.post('/v1/rooms', { name: `Room ${n}` }));
    await expectStatus(201, admin.post('/v1/model-keys', { name: `Key ${n}`, key: 'sk-x', provider: 'openai' }));
    await expectStatus(201, admin.post(`${room.path}/events`, { type: 'task', to: 'scout', goal: `${n}` }));
    await expectStatus(201, api.client(api.operatorKey).post('/v1/companies', { name: `Company ${n}` }));
  }
  const nothing = async (): Promise<void> => undefined;
  const lists = ['/v1/keys', '/v1/model-keys', '/v1/agents', '/v1/rooms', '/v1/wakes', `${room.path}/tasks`];
  for (const path of lists) {
    const all = (await expectStatus(200, admin.get(`${path}?limit=200`))).data.map((row: Json) => row.id);
    expect(all.length).toBeGreaterThanOrEqual(4);
    expect(await walk(admin, path, 'limit=3', nothing)).toEqual(all);
    expect(await walk(admin, path, 'limit=3&order=desc', nothing)).toEqual(all.toReversed());
    expect(await walk(admin, path, `limit=${all.length}`, nothing)).toEqual(all);
  }
  const operator = api.client(api.operatorKey);
  expect(await walk(operator, '/v1/companies', 'limit=1', nothing)).toHaveLength(6);
  const pageOf = async (path: string, key: string): Promise<string[]> => {
    const first = await expectStatus(200, admin.get(`${path}?limit=1`));
    const second = await expectStatus(200, admin.get(`${path}?limit=1&cursor=${first.next_cursor}`));
    return [first.data[0][key], second.data[0][key]];
  };
  expect(new Set(await pageOf(`${room.path}/members`, 'company')).size).toBe(2);
  expect(new Set(await pageOf(`${room.path}/roster`, 'agent')).size).toBe(2);
});

test('a cursor is valid for its own list only', async () => {
  const { next_cursor } = await expectStatus(200, room.larkspur.admin.get('/v1/keys?limit=1'));
  await expectStatus(200, room.larkspur.admin.get(`/v1/keys?limit=1&cursor=${next_cursor}`));
  for (const path of ['/v1/rooms', '/v1/runs', `${room.path}/messages`, `${room.path}/events`]) {
    const answer = await expectStatus(400, room.larkspur.admin.get(`${path}?cursor=${next_cursor}`));
    expect(answer).toMatchObject({ parameter: 'cursor' });
  }
});
