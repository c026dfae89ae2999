// Files through the API: upload, list, download, parsing, and who may read them.

import { promisify } from 'node:util';
import { gzip, gzipSync } from 'node:zlib';
import { finishFile, takeFile } from '../../prisma/store/files/parse-queue';
import { expectStatus, setUpRoom, startTestApi, type TestApi, type TestRoom } from '../support/api';
import { makePdf, PNG, readWaitingFiles, upload } from '../support/sample-files';

let api: TestApi;
let room: TestRoom;
beforeAll(async () => {
  api = await startTestApi({ fileLimitBytes: 2_000_000 });
  room = await setUpRoom(api);
});
afterAll(() => api.close());

/** Uploads a valid file, parses it, and returns it. */
async function addFile(name: string, body: string | Uint8Array, client = room.larkspur.member) {
  const file = await expectStatus(201, upload(client, room.path, name, body));
  await readWaitingFiles(api.db);
  return expectStatus(200, client.get(`${room.path}/files/${file.id}`));
}

async function eventsAbout(id: string) {
  const { data } = await expectStatus(200, room.tamarack.member.get(`${room.path}/events?limit=200`));
  return (data as { type: string; data: { id?: string; subject?: string } }[]).filter(
    (event) => event.data.id === id || event.data.subject === id,
  );
}

describe('a file', () => {
  test('is uploaded by a member, shown to the room, parsed, and downloaded byte for byte', async () => {
    const bytes = makePdf(['Turbine report', 'Costs']);
    const added = await expectStatus(201, upload(room.larkspur.member, room.path, 'report.pdf', bytes));
    expect(added).toMatchObject({
      room: room.id,
      company: room.larkspur.id,
      author: { kind: 'person', name: 'Member' },
      name: 'report.pdf',
      media_type: 'application/pdf',
      size: bytes.length,
      state: 'processing',
      code: null,
      pages: null,
    });
    const { tamarack } = room;
    expect(await eventsAbout(added.id)).toEqual([
      expect.objectContaining({ type: 'file_added', company: room.larkspur.id, data: added }),
    ]);
    await readWaitingFiles(api.db);
    const read = await expectStatus(200, tamarack.member.get(`${room.path}/files/${added.id}`));
    expect(read).toEqual({ ...added, state: 'ready', pages: 2, parsed_at: expect.any(String) });
    const { data } = await expectStatus(200, tamarack.member.get(`${room.path}/files?order=desc`));
    expect(data[0]).toEqual(read);

    const answer = await fetch(`${api.url}${room.path}/files/${added.id}/content`, {
      headers: { authorization: `Bearer ${await tokenOf(tamarack.admin)}` },
    });
    expect(Buffer.from(await answer.arrayBuffer()).equals(bytes)).toBe(true);
    expect(Object.fromEntries(answer.headers)).toMatchObject({
      'content-type': 'application/pdf',
      'content-disposition': 'attachment; filename=report.pdf',
      'x-content-type-options': 'nosniff',
    });
  });

  test('may be uploaded by services and agents, but not by an agent whose right to reply is not "go"', async () => {
    await expectStatus(201, upload(room.larkspur.service, room.path, 'a.txt', 'a'));
    const byAgent = await expectStatus(201, upload(room.larkspur.agent, room.path, 'a.txt', 'a'));
    expect(byAgent.author).toEqual({ kind: 'agent', id: room.larkspur.agentId, name: 'Scribe' });
    const supervised = await setUpRoom(api, { suffix: '-supervised', preset: 'supervised' });
    await expectStatus(403, upload(supervised.larkspur.agent, supervised.path, 'a.txt', 'a'));
  });

  test('is visible, searchable and downloadable in its own room only', async () => {
    const other = await setUpRoom(api, { suffix: '-other' });
    const file = await addFile('secret.txt', 'the canary sings');
    await expectStatus(404, other.larkspur.member.get(`${room.path}/files/${file.id}`));
    for (const path of [`files/${file.id}`, `files/${file.id}/content`]) {
      await expectStatus(404, other.larkspur.member.get(`${other.path}/${path}`));
    }
    const { data } = await expectStatus(200, room.tamarack.member.get(`${room.path}/passages?q=canary`));
    expect(data).toMatchObject([{ file: file.id }]);
    const none = { data: [], next_cursor: null };
    expect(await expectStatus(200, other.larkspur.member.get(`${other.path}/passages?q=canary`))).toEqual(none);
    expect(
      await expectStatus(200, other.larkspur.member.get(`${other.path}/passages?q=canary&file=${file.id}`)),
    ).toEqual(none);
    await expectStatus(404, other.larkspur.member.get(`${other.path}/passages/${data[0].id}`));
    await expectStatus(404, other.larkspur.member.get(`${room.path}/passages?q=canary`));
    await expectStatus(404, upload(other.larkspur.member, room.path, 'a.txt', 'a'));
  });

  test('loses its name, bytes and passages by redaction, also in the feed', async () => {
    const file = await addFile('merger-plans.txt', 'we buy Tamarack');
    await expectStatus(403, room.tamarack.admin.post(`${room.path}/redactions`, { subject: file.id }));
    await expectStatus(200, room.larkspur.admin.post(`${room.path}/redactions`, { subject: file.id }));
    const redacted = await expectStatus(200, room.larkspur.member.get(`${room.path}/files/${file.id}`));
    expect(redacted).toMatchObject({ name: '', sha256: '', state: 'unreadable', code: 'redacted', size: file.size });
    await expectStatus(404, room.larkspur.member.get(`${room.path}/files/${file.id}/content`));
    const { data } = await expectStatus(200, room.larkspur.member.get(`${room.path}/passages?q=tamarack`));
    expect(data).toEqual([]);
    expect(JSON.stringify(await eventsAbout(file.id))).not.toMatch(/merger|buy/);
  });

  test('is redacted in the stored answer to its upload’s Idempotency-Key', async () => {
    const keyed = { 'idempotency-key': 'upload-1', 'content-type': 'text/plain' };
    const send = () => upload(room.larkspur.member, room.path, 'secret-plans.txt', 'we buy', keyed);
    const { id } = await expectStatus(201, send());
    await expectStatus(200, room.larkspur.admin.post(`${room.path}/redactions`, { subject: id }));
    const again = await send();
    expect([again.status, again.headers.get('idempotency-replayed')]).toEqual([201, 'true']);
    expect(again.body).toMatchObject({ id, name: '', sha256: '' });
  });

  test('that is redacted during parsing stays erased', async () => {
    const file = await expectStatus(201, upload(room.larkspur.member, room.path, 'late.txt', 'late'));
    const taken = await takeFile(api.db);
    await expectStatus(200, room.larkspur.admin.post(`${room.path}/redactions`, { subject: file.id }));
    const passages = [{ text: 'late', page: null, line: 1, start: 0 }];
    expect(await finishFile(api.db, taken!, { passages, pages: null })).toBe(false);
    expect(await api.db.passage.count({ where: { fileId: file.id } })).toBe(0);
  });
});

async function tokenOf(admin: TestRoom['larkspur']['admin']): Promise<string> {
  const { token } = await expectStatus(201, admin.post('/v1/keys', { kind: 'service', name: 'reader' }));
  return token;
}

describe('a file name', () => {
  const long = `${'x'.repeat(296)}.txt`;
  test.each([
    ['../../x', '../../x', 'attachment; filename=x'],
    ['..\\..\\x', '..\\..\\x', 'attachment; filename="..\\\\..\\\\x"'],
    ['/etc/x', '/etc/x', 'attachment; filename=x'],
    ['a\r\nX-Evil: 1.txt', 'aX-Evil: 1.txt', 'attachment; filename="aX-Evil: 1.txt"'],
    ['say "hi".txt', 'say "hi".txt', 'attachment; filename="say \\"hi\\".txt"'],
    ['evil\u202Etxt.exe', 'eviltxt.exe', 'attachment; filename=eviltxt.exe'],
    ['CON', 'CON', 'attachment; filename=CON'],
    [long, long, `attachment; filename=${long}`],
    ['отчёт.txt', 'отчёт.txt', `attachment; filename="?????.txt"; filename*=UTF-8''${encodeURIComponent('отчёт.txt')}`],
    ['測試.docx', '測試.docx', `attachment; filename="??.docx"; filename*=UTF-8''${encodeURIComponent('測試.docx')}`],
  ])('%j is shown without control characters and is never used as a path', async (sent, shown, disposition) => {
    const headers = { 'content-type': 'text/plain; charset=utf-8' };
    const file = await expectStatus(201, upload(room.larkspur.member, room.path, sent, 'words', headers));
    expect(file).toMatchObject({ id: expect.stringMatching(/^file_/), name: shown });
    const content = await room.larkspur.member.get(`${room.path}/files/${file.id}/content`);
    expect(content.headers.get('content-disposition')).toBe(disposition);
    expect(content.headers.get('x-evil')).toBeNull();
  });

  test('may be equal for two files, which stay separate', async () => {
    const [one, two] = [await addFile('same.txt', 'one'), await addFile('same.txt', 'two')];
    expect(one.id).not.toBe(two.id);
    const content = await room.larkspur.member.get(`${room.path}/files/${one.id}/content`);
    expect(content.text).toBe('one');
  });

  test.each(['', ' ', '%00a.txt', '%0a', 'x'.repeat(501), '%ff'])('%j is refused', async (name) => {
    const { body } = await room.larkspur.member.send('POST', `${room.path}/files?name=${name}`, {
      body: 'words',
      headers: { 'content-type': 'text/plain' },
    });
    expect(body).toMatchObject({ status: 400, code: 'invalid_input' });
  });
});

describe('an unsupported file', () => {
  test('is refused by its media type, which the file name decides if Content-Type is missing', async () => {
    const { member } = room.larkspur;
    const image = await upload(member, room.path, 'a.png', PNG, { 'content-type': 'image/png' });
    expect(image.body).toMatchObject({ status: 415, code: 'unsupported_media_type' });
    await expectStatus(415, upload(member, room.path, 'plan.docx', 'PK'));
    await expectStatus(415, upload(member, room.path, 'constructor', 'x'));
    const markdown = await expectStatus(201, upload(member, room.path, 'README.MD', '# x'));
    expect(markdown.media_type).toBe('text/markdown');
    const csv = await expectStatus(201, upload(member, room.path, 'x.txt', 'a,b', { 'content-type': 'text/csv' }));
    expect(csv.media_type).toBe('text/csv');
  });

  test('is marked unreadable if it is binary and has the name of a text file', async () => {
    const file = await addFile('notes.txt', PNG);
    expect(file).toMatchObject({ state: 'unreadable', code: 'binary', pages: null });
    expect(await api.db.passage.count({ where: { fileId: file.id } })).toBe(0);
  });

  test('is refused if it is empty or larger than the limit, compressed or not', async () => {
    const { member } = room.larkspur;
    await expectStatus(400, upload(member, room.path, 'a.txt', ''));
    const large = await upload(member, room.path, 'a.txt', 'x'.repeat(2_000_001));
    expect(large.body).toMatchObject({
      status: 413,
      code: 'body_too_large',
      detail: expect.stringContaining('2000000'),
    });
    const packed = { 'content-type': 'text/plain', 'content-encoding': 'gzip' };
    const before = process.memoryUsage().rss;
    // Asynchronous, because a process that blocks for seconds loses its idle connections.
    const bomb = await promisify(gzip)(Buffer.alloc(300_000_000));
    expect(bomb.length).toBeLessThan(400_000);
    const afterPacking = process.memoryUsage().rss;
    await expectStatus(413, upload(member, room.path, 'a.txt', bomb, packed));
    expect(process.memoryUsage().rss - Math.max(before, afterPacking)).toBeLessThan(150_000_000);
    await expectStatus(201, upload(member, room.path, 'a.txt', gzipSync('words'), packed));
  });
});

test('parsed text has no NUL, even if the file has one', async () => {
  const file = await addFile('nul.pdf', makePdf(['a\\000b words']));
  expect(file.state).toBe('ready');
  const { data } = await expectStatus(200, room.larkspur.member.get(`${room.path}/passages?q=words&file=${file.id}`));
  expect(data).toHaveLength(1);
  expect(data[0].text).not.toContain('\0');
});
