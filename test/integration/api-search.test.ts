// Search through the API: memory and file passages, ranked, paged, and limited to what the caller may see.

import { listMemory } from '../../prisma/store/rooms/memory-reads';
import { searchMemory } from '../../prisma/store/rooms/memory-search';
import { searchPassages } from '../../prisma/store/files/passages';
import {
  createClient,
  expectStatus,
  serveSecondApi,
  setUpRoom,
  startTestApi,
  type ApiClient,
  type TestApi,
  type TestRoom,
} from '../support/api';
import { makePdf, readWaitingFiles, upload } from '../support/sample-files';
import { holdTransaction } from '../support/store-runs';

let api: TestApi;
let room: TestRoom;
beforeAll(async () => {
  api = await startTestApi();
  room = await setUpRoom(api);
});
afterAll(() => api.close());

async function remember(client: ApiClient, content: string, more: Record<string, unknown> = {}): Promise<string> {
  const body = { type: 'memory', category: 'fact', content, ...more };
  return (await expectStatus(201, client.post(`${room.path}/events`, body))).id;
}

async function found(client: ApiClient, query: string): Promise<string[]> {
  const { data } = await expectStatus(200, client.get(`${room.path}/memory?limit=200&${query}`));
  return (data as { id: string }[]).map((entry) => entry.id);
}

describe('memory', () => {
  test('is found by words, phrases, alternatives, exclusions and a prefix of the last word', async () => {
    const { member } = room.larkspur;
    const turbine = await remember(member, 'The big turbine is due in May');
    const crane = await remember(member, 'A crane lifts the big blade', { tags: ['Lifting gear'] });
    expect((await found(member, 'q=big')).sort()).toEqual([turbine, crane].sort());
    expect(await found(member, 'q=big+turbine')).toEqual([turbine]);
    expect(await found(member, 'q="big+blade"')).toEqual([crane]);
    expect(await found(member, 'q="blade+big"')).toEqual([]);
    expect((await found(member, 'q=turbine+or+crane')).sort()).toEqual([turbine, crane].sort());
    expect(await found(member, 'q=big+-turbine')).toEqual([crane]);
    expect(await found(member, 'q=BIG+turb')).toEqual([turbine]);
    expect(await found(member, 'q=gear')).toEqual([crane]);
    expect(await found(member, 'q=%21%21%21')).toEqual([]);
  });

  test.each(['отчёт о турбине', '測試 文件', "l'été était là", 'naïve café'])('has any script: %s', async (content) => {
    const id = await remember(room.larkspur.member, content);
    const last = content.split(' ').at(-1) ?? '';
    expect(await found(room.larkspur.member, `q=${encodeURIComponent(last)}`)).toEqual([id]);
  });

  test('is filtered by category, tag, author and time, with and without words', async () => {
    const { member, service } = room.larkspur;
    const one = await remember(member, 'narrow one', { category: 'decision', tags: ["it's", 'a\\b'] });
    const two = await remember(service, 'narrow two', { category: 'requirement', tags: ['plain'] });
    const { author, created_at } = await expectStatus(200, member.get(`${room.path}/memory/${two}`));
    for (const q of ['q=narrow&', '']) {
      expect(await found(member, `${q}category=decision`)).toEqual([one]);
      expect(await found(member, `${q}tag=${encodeURIComponent("it's")}`)).toEqual([one]);
      expect(await found(member, `${q}tag=${encodeURIComponent('a\\b')}`)).toEqual([one]);
      expect(await found(member, `${q}tag=PLAIN`)).toEqual([]);
      expect(await found(member, `${q}author=${author.id}`)).toEqual([two]);
      expect(await found(member, `${q}since=${created_at}`)).toEqual([two]);
      expect(await found(member, `${q}until=2020-01-01T00:00:00Z`)).toEqual([]);
      expect(await found(member, `${q}tag=plain&category=decision`)).toEqual([]);
    }
    expect(await found(member, `q=narrow&until=${created_at}`)).toEqual([one]);
  });

  test('is ranked, best first, and paged without a gap', async () => {
    const { member } = room.larkspur;
    const ids: string[] = [];
    for (let n = 0; n < 12; n += 1) ids.push(await remember(member, `ranking ${'ranking '.repeat(n % 4)}x`));
    const pages: string[] = [];
    let cursor = '';
    do {
      const path = `${room.path}/memory?q=ranking&limit=5${cursor && `&cursor=${cursor}`}`;
      const { data, next_cursor } = await expectStatus(200, member.get(path));
      pages.push(...(data as { id: string }[]).map((entry) => entry.id));
      cursor = next_cursor ?? '';
    } while (cursor !== '');
    expect(pages).toHaveLength(12);
    expect([...pages].sort()).toEqual([...ids].sort());
    expect(new Set(pages.slice(0, 3))).toEqual(new Set(ids.filter((_, n) => n % 4 === 3)));
  });

  test('that is deprecated is shown only with include_deprecated', async () => {
    const { larkspur, tamarack } = room;
    const id = await remember(larkspur.member, 'obsolete wisdom');
    const deprecation = { type: 'memory_deprecation', entry: id };
    await expectStatus(403, tamarack.admin.post(`${room.path}/events`, deprecation));
    const { seq, event } = await expectStatus(201, larkspur.service.post(`${room.path}/events`, deprecation));
    for (const client of [larkspur.member, tamarack.member]) {
      expect(await found(client, 'q=obsolete')).toEqual([]);
      expect(await found(client, 'q=obsolete&include_deprecated=true')).toEqual([id]);
    }
    const { data } = await expectStatus(200, tamarack.member.get(`${room.path}/events?after=${seq - 1}`));
    expect(data).toEqual([
      expect.objectContaining({
        id: event,
        type: 'memory_deprecation',
        data: expect.objectContaining({ id, content: 'obsolete wisdom', deprecated_at: expect.any(String) }),
      }),
    ]);
    await expectStatus(409, larkspur.member.post(`${room.path}/events`, deprecation));
    const unknown = { ...deprecation, entry: 'mem_01h455vb4pex5vsknk084sn02q' };
    const { body } = await larkspur.member.post(`${room.path}/events`, unknown);
    expect(body).toMatchObject({ status: 400, pointer: '/entry' });
  });

  test('is deprecated by an agent only with the right to memory', async () => {
    const supervised = await setUpRoom(api, { suffix: '-supervised', preset: 'supervised' });
    const event = { type: 'memory', category: 'fact', content: 'x' };
    const { id } = await expectStatus(201, supervised.larkspur.member.post(`${supervised.path}/events`, event));
    const deprecation = { type: 'memory_deprecation', entry: id };
    await expectStatus(403, supervised.larkspur.agent.post(`${supervised.path}/events`, deprecation));
    const mine = await remember(room.larkspur.agent, 'by the agent');
    await expectStatus(201, room.larkspur.agent.post(`${room.path}/events`, { ...deprecation, entry: mine }));
  });

  test('that is private is found by its own company only, for every query', async () => {
    const { larkspur, tamarack } = room;
    const content = 'canary of Larkspur';
    const id = await remember(larkspur.member, content, {
      visibility: 'private',
      tags: ['nest'],
      category: 'dependency',
    });
    expect(await found(larkspur.member, 'q=canary')).toEqual([id]);
    for (const query of ['q=canary', 'q=nest', 'tag=nest', 'category=dependency', 'q=canary&include_deprecated=true']) {
      expect(await found(tamarack.member, query)).toEqual([]);
      // An agent sees it only if its company allows it.
      expect(await found(larkspur.agent, query)).toEqual([]);
    }
    const { seq } = await expectStatus(
      201,
      larkspur.member.post(`${room.path}/events`, { type: 'memory_deprecation', entry: id }),
    );
    const feedOf = async (client: ApiClient) =>
      (await expectStatus(200, client.get(`${room.path}/events?after=${seq - 1}`))).data[0];
    expect(await feedOf(larkspur.member)).toMatchObject({ data: { content, deprecated_at: expect.any(String) } });
    const seen = await feedOf(tamarack.member);
    expect(seen).toMatchObject({ author: null, data: { id, visibility: 'private' } });
    expect(JSON.stringify(seen)).not.toContain('canary');
  });
});

describe('passages', () => {
  test('are found with the fields that a citation needs, in all files or in one', async () => {
    const { larkspur, tamarack } = room;
    const pdf = await expectStatus(
      201,
      upload(larkspur.member, room.path, 'a.pdf', makePdf(['intro', 'Osprey nests'])),
    );
    const text = await expectStatus(201, upload(larkspur.member, room.path, 'b.txt', 'one\n\nosprey again\n'));
    await readWaitingFiles(api.db);
    const { data } = await expectStatus(200, tamarack.member.get(`${room.path}/passages?q=osprey`));
    const byFile = (id: string) => (data as { file: string; id: string }[]).find((passage) => passage.file === id);
    const cited = byFile(pdf.id);
    expect(cited).toEqual({
      id: expect.stringMatching(/^psg_/),
      room: room.id,
      file: pdf.id,
      file_name: 'a.pdf',
      number: 2,
      page: 2,
      line: null,
      start: 6,
      text: 'Osprey nests',
    });
    expect(byFile(text.id)).toMatchObject({ page: null, line: 1, text: 'one\n\nosprey again' });
    const inOne = await expectStatus(200, tamarack.member.get(`${room.path}/passages?q=osprey&file=${pdf.id}`));
    expect(inOne.data).toEqual([cited]);
    expect(await expectStatus(200, tamarack.member.get(`${room.path}/passages/${cited?.id}`))).toEqual(cited);
  });
});

describe('a search', () => {
  test('that takes too long is stopped with 503', async () => {
    const held = await holdTransaction(
      api.db,
      (tx) => tx.$executeRaw`LOCK TABLE memory_entries IN ACCESS EXCLUSIVE MODE`,
    );
    const hasty = await serveSecondApi(api, { searchLimitMs: 1_000 });
    const { token } = await expectStatus(201, room.larkspur.admin.post('/v1/keys', { kind: 'service', name: 's' }));
    const { body } = await createClient(hasty.url, token).get(`${room.path}/memory?q=anything`);
    await held.release();
    await hasty.close();
    expect(body).toMatchObject({ status: 503, code: 'search_too_slow', detail: expect.stringContaining('1000 ms') });
    expect(await found(room.larkspur.member, 'q=nothing+like+it')).toEqual([]);
  });

  test.each([
    ['memory?q=', 'q'],
    [`memory?q=${'x'.repeat(501)}`, 'q'],
    ['memory?q=a%00b', 'q'],
    ['memory?q=x&order=asc', 'order'],
    ['memory?q=x&cursor=bWVt', 'cursor'],
    ['memory?tag=', 'tag'],
    ['memory?since=yesterday', 'since'],
    ['memory?include_deprecated=yes', 'include_deprecated'],
    ['passages', 'q'],
    ['passages?q=x&file=x', 'file'],
    ['passages?q=x&colour=red', 'colour'],
  ])('%s is refused for its %s', async (path, parameter) => {
    const { body } = await room.larkspur.member.get(`${room.path}/${path}`);
    expect(body).toMatchObject({ status: 400, code: 'invalid_input', parameter });
  });

  test.each(["'", "''':*", "a' | 'b", '\\', ':*', '!a & (b', 'a <-> b', '-', '"', '((('])(
    'for %j treats the query as text, not as syntax',
    async (q) => {
      await expectStatus(200, room.larkspur.member.get(`${room.path}/memory?q=${encodeURIComponent(q)}`));
      await expectStatus(200, room.larkspur.member.get(`${room.path}/passages?q=${encodeURIComponent(q)}`));
    },
  );

  test.each([undefined, null, ''])(
    'without a room or a company (%j) is an error, not a search of everything',
    async (none) => {
      const absent = none as unknown as string;
      const asked = { text: 'x', limitMs: 1_000 };
      const filter = {
        category: undefined,
        tag: undefined,
        author: undefined,
        since: undefined,
        until: undefined,
        deprecated: false,
      };
      const page = { after: null, limit: 5 };
      const viewer = { companyId: room.larkspur.id, seesPrivate: true };
      const stranger = { companyId: absent, seesPrivate: true };
      await expect(searchMemory(api.db, viewer, absent, asked, filter, page)).rejects.toThrow(/one company/);
      await expect(searchMemory(api.db, stranger, room.id, asked, filter, page)).rejects.toThrow(/one company/);
      await expect(searchPassages(api.db, absent, asked, undefined, page)).rejects.toThrow(/one room/);
      await expect(listMemory(api.db, stranger, room.id, filter, { ...page, order: 'asc' as const })).rejects.toThrow(
        /one company/,
      );
    },
  );
});
