// Runs in the console: chart and table, runs of other companies, cancelling and asking again. Also usage per day.

import { closeRun } from '../../prisma/store/runs/fence';
import { parseMicros } from '../../workflows/policy/prices';
import { consoleReader, openConsole, textOf, type TestConsole, type Reader } from '../support/console';
import { heldOf, heldRun } from '../support/held-actions';
import { openRun, repliedRun } from '../support/store-runs';

const UI = { url: 'http://127.0.0.1:8233/', namespace: 'rooms of ours' };
let app: TestConsole;
let reader: Reader;

beforeAll(async () => {
  const price = { inputMicros: parseMicros('2.5') ?? 0n, outputMicros: parseMicros('10') ?? 0n, currency: 'USD' };
  app = await openConsole({ temporalUi: UI, prices: new Map([['test-model', price]]) });
  reader = consoleReader(app.url);
  await reader.signIn((await app.hostKey('admin', 'Ada')).token);
});
afterAll(() => app.close());

test('a run is shown as a chart of lanes and as a table', async () => {
  const run = await openRun(app.world);
  await closeRun(app.world.db, run.execution, run.id, { kind: 'failed', code: 'internal' });
  const { html } = await reader.get(`/console/runs/${run.id}`);
  expect(html).toMatch(/<svg class="picture" viewBox="[^"]+" role="img" aria-label="The run in 5 lanes\./);
  const text = textOf(html);
  for (const expected of [
    'claim is granted, once and for good',
    'wake is delivered',
    'run is closed: failed (internal)',
    'workflow',
    'room effects',
  ]) {
    expect(text).toContain(expected);
  }
  expect(text).toContain('No Temporal is configured: this timeline is from the ledger alone.');
  expect(html.match(/<tr>/g)?.length).toBeGreaterThan(4);
});

test('the timeline shows a held action and the person who decided it', async () => {
  const run = await heldRun(app.world, { task_send: 'hold' });
  const path = `/console/runs/${run.id}`;
  expect(textOf((await reader.get(path)).html)).toContain('task_send:1 is held until a person decides');
  const held = (await heldOf(app.world, run.id)).get('task_send:1');
  const confirm = `/console/held-actions/${held?.id}`;
  await reader.submit(await reader.get(`${confirm}/decline`), `${confirm}/decision`);
  expect(textOf((await reader.get(path)).html)).toContain('task_send:1 is declined by Ada');
});

test('a run links to its workflow in the Temporal Web UI, if its address is configured', async () => {
  const run = await openRun(app.world);
  const { html } = await reader.get(`/console/runs/${run.id}`);
  const workflow = encodeURIComponent(run.execution.workflowId);
  const link = `http://127.0.0.1:8233/namespaces/rooms%20of%20ours/workflows/${workflow}/${run.execution.temporalRunId}/history`;
  expect(html).toContain(`href="${link}"`);
  const without = await openConsole();
  const other = await openRun(without.world);
  const there = consoleReader(without.url);
  await there.signIn((await without.hostKey()).token);
  expect((await there.get(`/console/runs/${other.id}`)).html).not.toContain('Temporal Web UI');
  await without.close();
});

test('a person sees the ending of another company’s run, but no timeline', async () => {
  const run = await openRun(app.world);
  await closeRun(app.world.db, run.execution, run.id, { kind: 'failed', code: 'internal' });
  const guest = consoleReader(app.url);
  await guest.signIn((await app.guestKey()).token);
  const page = await guest.get(`/console/runs/${run.id}`);
  const text = textOf(page.html);
  expect(page.status).toBe(200);
  expect(text).toContain('failed');
  expect(text).toContain('Only that company can see its timeline');
  expect(page.html).not.toMatch(/<svg|internal|temporal|wake\//i);
  expect(page.html).not.toContain(`/console/runs/${run.id}/cancel`);
});

test('the cancel page shows the effect, and only its form cancels', async () => {
  const run = await openRun(app.world);
  const path = `/console/runs/${run.id}`;
  const confirm = await reader.get(`${path}/cancel`);
  expect(textOf(confirm.html)).toContain('Completed steps are kept.');
  const stateOf = async () => (await app.world.db.run.findUniqueOrThrow({ where: { id: run.id } })).state;
  expect(await stateOf()).toBe('open');
  const page = await reader.submit(confirm, `${path}/cancel`, { reason: '<b>no</b> longer needed' });
  expect([page.path, await stateOf()]).toEqual([path, 'closed']);
  expect(textOf(page.html)).toContain('<b>no</b> longer needed');
  expect(textOf((await reader.get(`${path}/cancel`)).html)).toContain('The run has already ended (cancelled)');
});

test('a member can cancel and ask again like an admin; asking again posts a message in the member’s name', async () => {
  const member = consoleReader(app.url);
  await member.signIn((await app.hostKey('member', 'Mel')).token);
  const run = await openRun(app.world, { text: 'count them' });
  const path = `/console/runs/${run.id}`;
  const cancelled = await member.submit(await member.get(`${path}/cancel`), `${path}/cancel`);
  expect(textOf(cancelled.html)).toContain('cancelled');
  const again = await member.submit(cancelled, `${path}/ask-again`);
  expect(again.path).toBe(`/console/rooms/${app.world.roomId}`);
  const newest = await app.world.db.message.findFirstOrThrow({ orderBy: { seq: 'desc' } });
  expect([newest.authorName, newest.refersTo]).toEqual(['Mel', run.messageId]);
  expect(newest.id).not.toBe(run.messageId);
});

test('usage is shown per day: endings, tokens, money and suppressed wakes, as charts and tables', async () => {
  const own = await openConsole({
    prices: new Map([['test-model', { inputMicros: 2_500_000n, outputMicros: 10_000_000n, currency: 'USD' }]]),
  });
  const there = consoleReader(own.url);
  await there.signIn((await own.hostKey()).token);
  const empty = textOf((await there.get('/console/usage')).html);
  for (const none of ['No runs in', 'No model requests', 'No costs', 'No suppressed wakes']) {
    expect(empty).toContain(none);
  }
  const run = await repliedRun(own.world, { reply: 'Done.' });
  await own.world.db.modelRequest.updateMany({
    where: { runId: run.id },
    data: { inputTokens: 1_000n, outputTokens: 200n },
  });
  await closeRun(own.world.db, run.execution, run.id, { kind: 'failed', code: 'internal' });
  await own.world.db.agent.update({ where: { id: own.world.scribe.id }, data: { pausedAt: new Date() } });
  await own.world.post('@scribe asleep?');
  const { html } = await there.get('/console/usage?days=14');
  expect(html.match(/<svg class="picture"/g)).toHaveLength(4);
  const text = textOf(html);
  for (const expected of ['Runs by ending, by day', 'Tokens, by day', 'Money, by day', '0.0045', '1000', 'paused'])
    expect(text).toContain(expected);
  expect(html.match(/<th scope="row">/g)).toHaveLength(4 * 14);
  await own.close();
});
