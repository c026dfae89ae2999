// Held actions in the console: shown exactly as recorded, decided on a second page, and never reported as decided when the
// decision was not recorded.

import { expireHeldActions } from '../../prisma/store/runs/held-actions/decide';
import { closeAsLost } from '../../prisma/store/runs/fence';
import { createClient } from '../support/api';
import { consoleReader, fieldsOf, openConsole, textOf, type TestConsole, type Reader } from '../support/console';
import { heldOf, heldRun, letExpire } from '../support/held-actions';

let app: TestConsole;
let reader: Reader;
let token: string;
let keyId: string;

beforeAll(async () => {
  app = await openConsole();
  ({ token, id: keyId } = await app.hostKey('member', 'Mel'));
  reader = consoleReader(app.url);
  await reader.signIn(token);
});
afterAll(() => app.close());

const HOSTILE = '</pre><script>alert(1)</script>"><img src=x onerror=alert(1)>';

async function heldAction(goal = 'Check it.') {
  const send = { to: 'scout', goal, acceptance_criteria: [], priority: 'normal', deadline: null } as const;
  const run = await heldRun(app.world, { task_send: 'hold' }, { reply: 'Done.', tasks_to_send: [send] });
  const held = (await heldOf(app.world, run.id)).get('task_send:1');
  if (!held) throw new Error('nothing is held');
  return { run, held, path: `/console/held-actions/${held.id}` };
}

const stateOf = async (id: string) => (await app.world.db.heldAction.findUniqueOrThrow({ where: { id } })).state;

test('a held action is listed, and shown with its hashed JSON, the message that caused it and the remaining time', async () => {
  const { run, held, path } = await heldAction();
  const list = await reader.get('/console/held-actions');
  expect(list.html).toContain(`href="${path}"`);
  expect(textOf(list.html)).toContain('send a task');
  const { html } = await reader.get(path);
  const exact = /<pre id="exact">(.*?)<\/pre>/s.exec(html)?.[1] ?? '';
  expect(textOf(exact)).toBe(held.action);
  expect(textOf(html)).toContain(held.sha256);
  expect(textOf(html)).toContain('You approve exactly this JSON. SHA-256:');
  expect(textOf(html)).toMatch(/expires in 7[12] hours and \d+ minutes/);
  expect(textOf(html)).toContain('@scribe please');
  expect(html).toContain(`href="/console/runs/${run.id}"`);
});

test.each([
  ['approve', 'approved', 'The task is sent to the named agent', 'Your decision is recorded: approved.'],
  ['decline', 'declined', 'The task is not sent', 'Your decision is recorded: declined.'],
])('%s: a page shows the effect, and only its form decides', async (decision, state, effect, done) => {
  const { held, path } = await heldAction();
  const confirm = await reader.get(`${path}/${decision}`);
  expect(textOf(confirm.html)).toContain(effect);
  expect(await stateOf(held.id)).toBe('held');
  const page = await reader.submit(confirm, `${path}/decision`);
  expect([page.status, textOf(page.html).includes(done), await stateOf(held.id)]).toEqual([200, true, state]);
  const row = await app.world.db.heldAction.findUniqueOrThrow({ where: { id: held.id } });
  expect(row.decidedBy).toBe(keyId);
});

test('an earlier decision of another person is shown as theirs', async () => {
  const other = createClient(app.url, (await app.hostKey('member', 'Nia')).token);
  for (const theirs of ['approve', 'decline'] as const) {
    for (const mine of ['approve', 'decline'] as const) {
      const { held, path } = await heldAction();
      const confirm = await reader.get(`${path}/${mine}`);
      await other.post(`/v1/held-actions/${held.id}/decision`, { decision: theirs, hash: held.sha256 });
      const page = await reader.submit(confirm, `${path}/decision`);
      const text = textOf(page.html);
      expect(text).not.toContain('Your decision is recorded');
      expect(text).toContain(`Already ${theirs}d by Nia; your click changed nothing.`);
      expect(text).toContain(`Decided by Nia`);
      expect(await stateOf(held.id)).toBe(theirs === 'approve' ? 'approved' : 'declined');
    }
  }
});

test('an action that expired is shown as expired, not as declined or approved', async () => {
  const { run, held, path } = await heldAction();
  const confirm = await reader.get(`${path}/approve`);
  await letExpire(app.world, run.id, 'task_send:1');
  await expireHeldActions(app.world.db, 100);
  const page = await reader.submit(confirm, `${path}/decision`);
  expect(page.status).toBe(410);
  expect(textOf(page.html)).toContain('Already expired; your click changed nothing.');
  expect(textOf(page.html)).not.toMatch(/Your decision is recorded|declined by/i);
  expect(await stateOf(held.id)).toBe('expired');
});

test('an action that was superseded is shown as superseded, without a decision form', async () => {
  const { run, held, path } = await heldAction();
  const confirm = await reader.get(`${path}/approve`);
  await closeAsLost(app.world.db, run.id);
  const page = await reader.submit(confirm, `${path}/decision`);
  expect(page.status).toBe(409);
  expect(textOf(page.html)).toContain('Already superseded; your click changed nothing.');
  expect(page.html).not.toContain(`${path}/approve`);
  expect((await reader.get(`${path}/approve`)).status).toBe(409);
  expect(await stateOf(held.id)).toBe('superseded');
});

test('a decision with another hash is not recorded', async () => {
  const { held, path } = await heldAction();
  const confirm = await reader.get(`${path}/approve`);
  const page = await reader.submit(confirm, `${path}/decision`, { hash: '0'.repeat(64) });
  expect([page.status, await stateOf(held.id)]).toEqual([409, 'held']);
  expect(textOf(page.html)).toContain('Your decision was not recorded');
});

test('a decision without the form token or from another origin is not recorded', async () => {
  const { held, path } = await heldAction();
  const fields = fieldsOf((await reader.get(`${path}/approve`)).html, `${path}/decision`);
  const { csrf: _, ...without } = fields;
  expect((await reader.post(`${path}/decision`, without)).status).toBe(403);
  expect((await reader.post(`${path}/decision`, fields, { origin: 'https://elsewhere.example' })).status).toBe(403);
  expect(await stateOf(held.id)).toBe('held');
});

test('another company does not see the action', async () => {
  const { held, path } = await heldAction();
  const guest = consoleReader(app.url);
  await guest.signIn((await app.guestKey()).token);
  expect(textOf((await guest.get('/console/held-actions')).html)).toContain('No actions waiting for approval.');
  for (const page of [path, `${path}/approve`, `${path}/decline`]) expect((await guest.get(page)).status).toBe(404);
  const { csrf = '' } = fieldsOf((await guest.get('/console/rooms')).html, '/console/sign-out');
  const forged = await guest.post(`${path}/decision`, { csrf, decision: 'approve', hash: held.sha256 });
  expect([forged.status, await stateOf(held.id)]).toEqual([404, 'held']);
});

test('the text of an action is never markup', async () => {
  const { path } = await heldAction(HOSTILE);
  for (const page of [path, `${path}/approve`]) {
    const { html } = await reader.get(page);
    expect(html).not.toMatch(/<script>alert|<img src=x/);
    expect(textOf(html)).toContain(HOSTILE);
  }
});
