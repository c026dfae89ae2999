// Rooms in the console: their content, that texts are never markup, and posting to them.

import { RoomDraft } from '../../prisma/store/rooms/room-draft';
import { lockRoomForWrite } from '../../prisma/store/rooms/roster';
import { stageMemory } from '../../prisma/store/rooms/memory';
import { closeRun } from '../../prisma/store/runs/fence';
import { createClient } from '../support/api';
import { consoleReader, fieldsOf, openConsole, textOf, type TestConsole, type Reader } from '../support/console';
import { openRun } from '../support/store-runs';

let app: TestConsole;
let reader: Reader;
let path: string;
let api: string;
let token: string;

beforeAll(async () => {
  app = await openConsole();
  path = `/console/rooms/${app.world.roomId}`;
  api = `/v1/rooms/${app.world.roomId}`;
  ({ token } = await app.hostKey('member', 'Mel'));
  reader = consoleReader(app.url);
  await reader.signIn(token);
});
afterAll(() => app.close());

const HOSTILE = [
  '<script>alert(1)</script>',
  '"><img src=x onerror=alert(1)>',
  "' autofocus onfocus=alert(1) x='",
  '</textarea></title></style><svg onload=alert(1)>',
  'javascript:alert(1)',
  '&lt;b&gt; <!-- --> ]]>',
  '\u202egnp.exe',
] as const;

const NEVER = /<script>alert|<img src=x|<svg onload|onfocus=alert\(1\) x='"|href="javascript:/;

test('a room shows messages, tasks with their state, memory, agents, endings and suppressed wakes', async () => {
  const { world } = app;
  const run = await openRun(world, { text: 'where do we start?' });
  await closeRun(world.db, run.execution, run.id, { kind: 'failed', code: 'internal' });
  await world.sendTask('scout', 'Count the boxes.');
  await world.db.agent.update({ where: { id: world.scout.id }, data: { pausedAt: new Date() } });
  await world.post('@scout are you there?');
  await world.db.agent.update({ where: { id: world.scout.id }, data: { pausedAt: null } });
  await remember('decision', 'We ship on Friday.', 'shared');

  const { html } = await reader.get(path);
  const text = textOf(html);
  for (const shown of [
    'where do we start?',
    'Count the boxes.',
    'pending',
    'normal priority',
    'We ship on Friday.',
    '@scribe',
    'Larkspur',
    'Tamarack',
    'failed Scribe: it completed no step.',
    'not woken Scout: the agent is not available.',
  ]) {
    expect(text).toContain(shown);
  }
  expect(html).toContain(`href="/console/runs/${run.id}"`);
});

test('a company sees the exact reason of a suppressed wake of its own agent', async () => {
  const { world } = app;
  await world.db.agent.update({ where: { id: world.scribe.id }, data: { pausedAt: new Date() } });
  await world.post('@scribe and you?');
  await world.db.agent.update({ where: { id: world.scribe.id }, data: { pausedAt: null } });
  expect(textOf((await reader.get(path)).html)).toContain('not woken Scribe: the room or the agent is paused.');
});

test('a person sees only the company and the time of a private memory entry of another company', async () => {
  await remember('fact', 'Our margin is 12 percent.', 'private');
  const guest = consoleReader(app.url);
  await guest.signIn((await app.guestKey()).token);
  const guestPage = (await guest.get(path)).html;
  expect(guestPage).not.toContain('margin');
  expect(textOf(guestPage)).toContain('Private entry of Larkspur');
  expect((await reader.get(path)).html).toContain('Our margin is 12 percent.');
});

test.each(HOSTILE)('%s is shown as text on every page', async (hostile) => {
  const { world } = app;
  const clean = hostile.replaceAll('@', '');
  await world.post(hostile);
  await world.sendTask('scout', hostile);
  await remember('other', hostile, 'shared', [clean.slice(0, 60)]);
  await world.db.room.update({ where: { id: world.roomId }, data: { name: hostile } });
  await world.db.company.update({ where: { id: world.guest.id }, data: { name: hostile } });
  await world.db.agent.update({ where: { id: world.scout.id }, data: { name: hostile } });
  const { token: named } = await app.hostKey('member', hostile);
  const own = consoleReader(app.url);
  await own.signIn(named);
  const pages = [
    await own.get(path),
    await own.get('/console/rooms'),
    await own.get(`${path}/task`),
    await own.get(`${path}?q=${encodeURIComponent(hostile)}`),
    await own.get('/console/held-actions'),
    await own.submit(await own.get(path), `${path}/message`, { text: hostile }),
    await own.submit(await own.get(`${path}/task`), `${path}/task`, { to: 'scout', goal: hostile, criteria: hostile }),
  ];
  for (const { html } of pages) expect(html).not.toMatch(NEVER);
  for (const { html } of [pages[0], pages[5], pages[6]] as { html: string }[]) expect(textOf(html)).toContain(hostile);
  await world.db.room.update({ where: { id: world.roomId }, data: { name: 'Launch' } });
  await world.db.company.update({ where: { id: world.guest.id }, data: { name: 'Tamarack' } });
  await world.db.agent.update({ where: { id: world.scout.id }, data: { name: 'Scout' } });
});

test.each(HOSTILE)('a file called %s is shown as text and served only as a download', async (name) => {
  const added = await fetch(`${app.url}${api}/files?name=${encodeURIComponent(`${name}.html`)}`, {
    method: 'POST',
    headers: { authorization: `Bearer ${token}`, 'content-type': 'text/html' },
    body: '<script>alert(1)</script>',
  });
  const { id, name: kept } = (await added.json()) as { id: string; name: string };
  expect(added.status).toBe(201);
  const page = await reader.get(path);
  expect(page.html).not.toMatch(NEVER);
  expect(textOf(page.html)).toContain(kept);
  const file = await reader.get(`${path}/files/${id}`);
  expect(file.status).toBe(200);
  expect(file.headers.get('content-disposition')).toMatch(/^attachment/);
  expect(file.headers.get('x-content-type-options')).toBe('nosniff');
  expect((await consoleReader(app.url).get(`${path}/files/${id}`)).location).toContain('/console/sign-in');
});

test('a person searches memory', async () => {
  await remember('fact', 'The kestrel nests under the eaves.', 'shared');
  const found = await reader.get(`${path}?q=kestrel`);
  const part = /id="memory"(.*?)<\/section>/s.exec(found.html)?.[1] ?? '';
  expect(part).toContain('kestrel nests');
  expect(part).not.toContain('We ship on Friday.');
  expect(textOf((await reader.get(`${path}?q=walrus`)).html)).toContain('No memory entry matches.');
});

describe('a message', () => {
  test.each([
    ['@scribe please', ['Scribe']],
    ['ask scribe@example.com and `@scribe`', []],
    ['@Scout and @scribe', ['Scout', 'Scribe']],
    ['> @scribe agreed', []],
  ])('the preview of %s shows the agents that the posted message addresses', async (text, names) => {
    const preview = await reader.submit(await reader.get(path), `${path}/message`, { text });
    const box = /id="addressed">(.*?)<\/div>/s.exec(preview.html)?.[1] ?? '';
    const shown = [...box.matchAll(/<strong>([^<]*)<\/strong>/g)].map(([, name]) => name);
    expect(shown).toEqual(names);
    await reader.submit(preview, `${path}/send`);
    const { body } = await createClient(app.url, token).get(`${api}/messages?order=desc&limit=1`);
    const ids = { Scribe: app.world.scribe.id, Scout: app.world.scout.id };
    expect(body.data[0]).toMatchObject({ text, mentions: names.map((name) => ids[name as keyof typeof ids]).sort() });
    expect(body.data[0].author).toMatchObject({ kind: 'person', name: 'Mel' });
  });

  test('a preview sends nothing', async () => {
    const before = await lastSeq();
    await reader.submit(await reader.get(path), `${path}/message`, { text: '@scribe not yet' });
    expect(await lastSeq()).toBe(before);
  });

  test('a form that is submitted twice posts one message', async () => {
    const preview = await reader.submit(await reader.get(path), `${path}/message`, { text: 'only once' });
    const before = await lastSeq();
    const [first, second] = await Promise.all([
      reader.submit(preview, `${path}/send`),
      reader.submit(preview, `${path}/send`),
    ]);
    expect([first, second].some(({ status }) => status === 200)).toBe(true);
    await reader.submit(preview, `${path}/send`);
    expect((await lastSeq()) - before).toBe(1);
  });

  test('keeps its line breaks and spaces', async () => {
    const preview = await reader.submit(await reader.get(path), `${path}/message`, { text: 'one\r\n\r\n  two' });
    await reader.submit(preview, `${path}/send`);
    const { body } = await createClient(app.url, token).get(`${api}/messages?order=desc&limit=1`);
    expect(body.data[0].text).toBe('one\n\n  two');
  });

  test('that the API refuses is shown again with the problem', async () => {
    const text = 'x'.repeat(32_001);
    const page = await reader.submit(await reader.get(path), `${path}/message`, { text });
    const refused = await reader.submit(page, `${path}/send`);
    expect(refused.status).toBe(400);
    expect(textOf(refused.html)).toContain('at most 32000 characters');
    expect(refused.html).toContain(text);
  });

  test('that is larger than the form limit is refused with a text', async () => {
    const page = await reader.submit(await reader.get(path), `${path}/message`, { text: 'x'.repeat(600_000) });
    expect([page.status, textOf(page.html).includes('too large')]).toEqual([413, true]);
  });
});

test('a task is previewed, sent and shown in the room', async () => {
  const form = await reader.get(`${path}/task`);
  const fields = {
    to: 'scout',
    goal: 'Weigh the crates.',
    criteria: 'in kilos\r\n\r\nto the gram',
    priority: 'high',
    deadline: '2026-12-24',
  };
  const preview = await reader.submit(form, `${path}/task`, fields);
  expect(textOf(preview.html)).toContain('Scout');
  const page = await reader.submit(preview, `${path}/send`);
  expect(page.path).toBe(path);
  const { body } = await createClient(app.url, token).get(`${api}/tasks?order=desc&limit=1`);
  expect(body.data[0]).toMatchObject({
    recipient: app.world.scout.id,
    goal: 'Weigh the crates.',
    acceptance_criteria: ['in kilos', 'to the gram'],
    priority: 'high',
    deadline: '2026-12-24',
  });
  expect(textOf(page.html)).toContain('Weigh the crates.');
});

test.each([
  [{ to: 'unknown', goal: 'x' }, 'Choose an agent'],
  [{ to: 'scout', goal: '  ' }, 'Enter a goal'],
])('an incomplete task %j is shown again with the entered fields', async (fields, message) => {
  const page = await reader.submit(await reader.get(`${path}/task`), `${path}/task`, { ...fields, criteria: 'kept' });
  expect([page.status, textOf(page.html).includes(message), page.html.includes('kept')]).toEqual([400, true, true]);
});

test('older events are on another page', async () => {
  for (let i = 0; i < 62; i += 1) await app.world.post(`note ${i}`);
  const newest = await reader.get(path);
  expect(newest.html).toContain('note 61');
  expect(newest.html).not.toContain('>note 1<');
  const older = /href="([^"]+\?up_to=\d+)"/.exec(newest.html)?.[1] ?? '';
  const page = await reader.get(older);
  expect(page.html).toContain('>note 1<');
  expect(page.html).not.toContain('note 61');
  expect(page.html).not.toContain('data-live=');
});

test('a person pauses and resumes a room', async () => {
  const paused = await reader.submit(await reader.get(path), `${path}/pause`);
  expect(textOf(paused.html)).toContain('No agent is woken in this room.');
  const resumed = await reader.submit(paused, `${path}/resume`);
  expect(resumed.html).toContain(`action="${path}/pause"`);
});

test('pages of another company’s room, tasks, runs and feed are not found', async () => {
  const company = await app.world.db.company.create({
    data: { id: app.world.host.id.replace(/.{4}$/, '0000'), slug: 'fireweed', name: 'Fireweed' },
  });
  const { token: foreign } = await app.keyOf({ kind: 'person', role: 'admin', name: 'Eve', companyId: company.id });
  const stranger = consoleReader(app.url);
  const home = await stranger.signIn(foreign);
  expect(textOf(home.html)).toContain('No rooms yet.');
  const run = await openRun(app.world);
  for (const hidden of [
    path,
    `${path}/task`,
    `/console/runs/${run.id}`,
    `/console/runs/${run.id}/cancel`,
    `${path}x`,
    '/console/rooms/1',
  ]) {
    const page = await stranger.get(hidden);
    expect([page.status, textOf(page.html).includes('Not found')]).toEqual([404, true]);
  }
  expect((await stranger.get(`${path}/news`)).status).toBe(404);
  const { csrf = '' } = fieldsOf(home.html, '/console/sign-out');
  for (const [what, fields] of [
    ['send', { type: 'message', text: 'x' }],
    ['pause', {}],
  ] as const) {
    expect((await stranger.post(`${path}/${what}`, { csrf, ...fields })).status).toBe(404);
  }
});

test('the path /news streams the room’s feed to a session', async () => {
  const aborted = new AbortController();
  const answer = await fetch(`${app.url}${path}/news?after=${await lastSeq()}`, {
    headers: { cookie: reader.cookie ?? '', accept: 'text/event-stream' },
    signal: aborted.signal,
  });
  expect([answer.status, answer.headers.get('content-type')]).toEqual([200, 'text/event-stream; charset=utf-8']);
  await app.world.post('fresh news');
  const stream = (answer.body as ReadableStream<Uint8Array>).getReader();
  let received = '';
  while (!received.includes('fresh news')) received += Buffer.from((await stream.read()).value ?? []).toString();
  aborted.abort();
  expect((await fetch(`${app.url}${path}/news`, { redirect: 'manual' })).status).toBe(303);
});

test('a page over the rate limit shows when to try again', async () => {
  const slow = await openConsole({ requestsPerMinute: 3 });
  const busy = consoleReader(slow.url);
  const { token: own } = await slow.hostKey();
  await busy.signIn(own);
  const page = await busy.get(`/console/rooms/${slow.world.roomId}`);
  expect(page.status).toBe(429);
  expect(textOf(page.html)).toMatch(/Try again in \d+ seconds/);
  await slow.close();
});

async function lastSeq(): Promise<number> {
  const room = await app.world.db.room.findUniqueOrThrow({ where: { id: app.world.roomId } });
  return Number(room.lastSeq);
}

async function remember(
  category: 'decision' | 'fact' | 'other',
  content: string,
  visibility: 'shared' | 'private',
  tags: string[] = [],
): Promise<void> {
  const { world } = app;
  await world.db.transaction(async (tx) => {
    await lockRoomForWrite(tx, world.roomId, world.host.id);
    const draft = new RoomDraft(world.roomId);
    stageMemory(draft, world.roomId, { author: world.host.person, category, content, tags, visibility, runId: null });
    await draft.append(tx);
  });
}
