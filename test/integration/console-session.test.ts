// Sign-in to the console, the session cookie, and protection against forms of other sites.

import { createSecretBox } from '../../workflows/policy/secret-box';
import { ensureOperatorKey, revokeKey, type KeyToCreate } from '../../prisma/store/access/keys';
import { consoleReader, fieldsOf, openConsole, textOf, type TestConsole } from '../support/console';

let app: TestConsole;
const room = () => `/console/rooms/${app.world.roomId}`;

beforeAll(async () => {
  app = await openConsole();
});
afterAll(() => app.close());
afterEach(() => void jest.useRealTimers());

async function signedIn() {
  const key = await app.hostKey('admin', 'Ada');
  const reader = consoleReader(app.url);
  const page = await reader.signIn(key.token);
  return { key, reader, page };
}

test('a person signs in with a key and sees the rooms of the company', async () => {
  const { page } = await signedIn();
  expect([page.status, page.path]).toEqual([200, '/console/rooms']);
  expect(textOf(page.html)).toContain('Ada (admin)');
  expect(page.html).toContain(`href="${room()}"`);
});

test('the cookie is HttpOnly, contains no readable key, and is Secure behind TLS', async () => {
  const key = await app.hostKey();
  const reader = consoleReader(app.url);
  const form = await reader.get('/console/sign-in');
  const fields = { ...fieldsOf(form.html, '/console/sign-in'), key: key.token };
  const plain = await reader.post('/console/sign-in', fields);
  const set = plain.headers.get('set-cookie') ?? '';
  expect(set).toMatch(/; Max-Age=43200; Path=\/console; Expires=[^;]+; HttpOnly; SameSite=Strict$/);
  const cookieValue = decodeURIComponent(set.split(';')[0] ?? '');
  expect(cookieValue).not.toContain(key.token);
  expect(Buffer.from(cookieValue.split('.').at(-1) ?? '', 'base64url').toString('latin1')).not.toContain(key.token);

  const proxied = consoleReader(app.url);
  const again = await proxied.get('/console/sign-in');
  const secure = await proxied.post(
    '/console/sign-in',
    { ...fieldsOf(again.html, '/console/sign-in'), key: key.token },
    { origin: app.url, 'x-forwarded-proto': 'https' },
  );
  expect(secure.headers.get('set-cookie')).toContain('; Secure');
});

test.each<[string, (g: TestConsole) => KeyToCreate, RegExp]>([
  ['service', ({ world }) => ({ kind: 'service', name: 'CI', companyId: world.host.id }), /key of a service.*people/],
  [
    'agent',
    ({ world }) => ({ kind: 'agent', agentId: world.scribe.id, name: 'own', companyId: world.host.id }),
    /key of an agent.*people/,
  ],
])("a %s's key is refused with a reason", async (_, make, why) => {
  const { token } = await app.keyOf(make(app));
  const page = await consoleReader(app.url).signIn(token);
  expect(page.status).toBe(403);
  expect(textOf(page.html)).toMatch(why);
  expect(page.html).not.toContain(token);
});

test("the operator's key, an unknown key and an empty key are refused", async () => {
  const operator = 'operator-key-of-this-test-only-0123456789';
  await ensureOperatorKey(app.world.db, operator);
  for (const [key, why] of [
    [operator, "the operator's key"],
    ['dr_person_unknown', 'unknown'],
    ['', 'unknown'],
    ['käse', 'unknown'],
  ] as const) {
    const page = await consoleReader(app.url).signIn(key);
    expect([page.status, textOf(page.html).includes(why)]).toEqual([403, true]);
  }
});

test("a person of a suspended company can't sign in", async () => {
  const { token } = await app.guestKey();
  await app.world.db.company.update({ where: { id: app.world.guest.id }, data: { suspendedAt: new Date() } });
  const page = await consoleReader(app.url).signIn(token);
  expect(textOf(page.html)).toContain('suspended your company');
  await app.world.db.company.update({ where: { id: app.world.guest.id }, data: { suspendedAt: null } });
});

test('a session ends when its key is revoked', async () => {
  const { key, reader } = await signedIn();
  await signedIn();
  await app.world.db.transaction((tx) => revokeKey(tx, app.world.host.id, key.id));
  const page = await reader.open('/console/rooms');
  expect(page.path).toBe('/console/sign-in?to=%2Fconsole%2Frooms&ended=1');
  expect(textOf(page.html)).toContain('your key is no longer valid');
});

test('a session ends after twelve hours, not earlier', async () => {
  const { reader } = await signedIn();
  const cookie = reader.cookie;
  jest.useFakeTimers({
    doNotFake: ['setTimeout', 'setInterval', 'setImmediate', 'nextTick', 'queueMicrotask'],
    now: Date.now(),
  });
  jest.setSystemTime(Date.now() + 12 * 3_600_000 - 60_000);
  expect((await reader.get('/console/rooms')).status).toBe(200);
  jest.setSystemTime(Date.now() + 120_000);
  reader.cookie = cookie;
  expect((await reader.get('/console/rooms')).location).toContain('/console/sign-in');
});

test('a changed cookie, or one sealed for another use, is refused', async () => {
  const { reader } = await signedIn();
  const cookie = reader.cookie ?? '';
  const { key } = { key: await app.hostKey() };
  const foreign = createSecretBox([{ id: 'test', key: Buffer.alloc(32, 7) }]);
  const text = JSON.stringify({ key: key.token, csrf: 'x', until: Date.now() + 1e6 });
  const name = cookie.split('=')[0] ?? '';
  for (const forged of [
    cookie.slice(0, -4),
    `${name}=${foreign.seal(text, 'console session')}`,
    `${name}=${app.world.secretBox.seal(text, 'another use')}`,
    `${name}=x`,
  ]) {
    reader.cookie = forged;
    expect((await reader.get('/console/rooms')).location).toContain('/console/sign-in');
  }
});

test('sign-out ends the session', async () => {
  const { reader, page } = await signedIn();
  const out = await reader.submit(page, '/console/sign-out');
  expect(out.path).toBe('/console/sign-in');
  expect((await reader.get('/console/rooms')).location).toContain('/console/sign-in');
});

test('sign-in returns to the requested page, and never to another site', async () => {
  const { token } = await app.hostKey();
  const reader = consoleReader(app.url);
  const asked = await reader.open(`${room()}?q=plan`);
  const back = await reader.submit(asked, '/console/sign-in', { key: token });
  expect(back.path).toBe(`${room()}?q=plan`);
  for (const to of ['https://elsewhere.example/', '//elsewhere.example', '/v1/rooms', '/console/\\elsewhere']) {
    const other = consoleReader(app.url);
    const form = await other.get(`/console/sign-in?to=${encodeURIComponent(to)}`);
    expect((await other.submit(form, '/console/sign-in', { key: token, to })).path).toBe('/console/rooms');
  }
});

describe('forms of other sites have no effect', () => {
  const FORMS: readonly [string, Record<string, string>][] = [
    ['send', { type: 'message', text: 'forged' }],
    ['message', { text: 'forged' }],
    ['task', { to: 'scribe', goal: 'forged' }],
    ['pause', {}],
    ['resume', {}],
  ];

  test.each(FORMS)('%s needs the form token and the origin of its session', async (what, fields) => {
    const { reader, page } = await signedIn();
    const path = `${room()}/${what}`;
    const { csrf = '' } = fieldsOf(page.html, '/console/sign-out');
    const other = await signedIn();
    const foreign = fieldsOf(other.page.html, '/console/sign-out')['csrf'] ?? '';
    const before = await app.world.db.room.findUniqueOrThrow({ where: { id: app.world.roomId } });
    const tries: [Record<string, string>, Record<string, string>][] = [
      [{}, { origin: app.url }],
      [{ csrf: foreign }, { origin: app.url }],
      [{ csrf: `${csrf}x` }, { origin: app.url }],
      [{ csrf }, { origin: 'https://elsewhere.example' }],
      [{ csrf }, { origin: 'null' }],
      [{ csrf }, {}],
    ];
    for (const [token, headers] of tries) {
      const answer = await reader.post(path, { ...fields, ...token }, headers);
      expect([answer.status, textOf(answer.html).includes('this form belongs to another session')]).toEqual([
        403,
        true,
      ]);
    }
    const after = await app.world.db.room.findUniqueOrThrow({ where: { id: app.world.roomId } });
    expect([after.lastSeq, after.pausedAt]).toEqual([before.lastSeq, before.pausedAt]);
  });

  test('a form of another site cannot sign a person in or out', async () => {
    const { token } = await app.hostKey();
    const stranger = consoleReader(app.url);
    expect((await stranger.post('/console/sign-in', { key: token })).status).toBe(403);
    const form = await stranger.get('/console/sign-in');
    const fields = { ...fieldsOf(form.html, '/console/sign-in'), key: token };
    const forged = await stranger.post('/console/sign-in', fields, { origin: 'https://elsewhere.example' });
    expect([forged.status, forged.location]).toEqual([403, null]);
    const { reader } = await signedIn();
    expect((await reader.post('/console/sign-out', {})).status).toBe(403);
    expect((await reader.get('/console/rooms')).status).toBe(200);
  });

  test('a JSON body is not read as a form', async () => {
    const { reader, page } = await signedIn();
    const { csrf = '' } = fieldsOf(page.html, '/console/sign-out');
    const answer = await fetch(`${app.url}${room()}/send`, {
      method: 'POST',
      headers: { cookie: reader.cookie ?? '', origin: app.url, 'content-type': 'application/json' },
      body: JSON.stringify({ csrf, type: 'message', text: 'forged' }),
    });
    expect(answer.status).toBe(403);
  });
});

test('every page, error page and asset has the strict security policy', async () => {
  const { reader } = await signedIn();
  const styles = /href="(\/console\/assets\/[^"]+\.css)"/.exec((await reader.get('/console/rooms')).html)?.[1] ?? '';
  for (const path of [
    '/console/sign-in',
    '/console/rooms',
    room(),
    `${room()}/task`,
    '/console/held-actions',
    '/console/usage',
    '/console/nothing',
    styles,
  ]) {
    const { headers, html } = await reader.get(path);
    const policy = headers.get('content-security-policy') ?? '';
    expect(policy).toContain("default-src 'none'; script-src 'self'; style-src 'self'");
    expect(policy).not.toMatch(/unsafe|data:|https:|\*/);
    expect(policy).toContain("frame-ancestors 'none'");
    expect(headers.get('x-content-type-options')).toBe('nosniff');
    expect(html).not.toMatch(/<script(?![^>]* src="\/console\/assets\/)|<style| style="| on[a-z]+="/);
  }
});

test('the log of a sign-in holds no key and no cookie', async () => {
  const { key, reader } = await signedIn();
  await reader.get(room());
  expect(app.logged()).not.toContain(key.token);
  expect(app.logged()).not.toContain((reader.cookie ?? '').split('=')[1]);
});

test('an unknown path shows an error page with a link to the rooms', async () => {
  const { reader } = await signedIn();
  const page = await reader.get('/console/nothing');
  expect(page.status).toBe(404);
  expect(textOf(page.html)).toContain('Not found');
  expect(page.html).toContain('href="/console/rooms"');
});
