// A complete run with each wire format: the ledger, the number of requests after every failure, and the guard of an owner's
// address. The server counts every request.

import { closedRun, startTestWorker, until, type TestWorker } from '../support/runs';
import { answer, startScriptedModel, type ScriptedAnswer, type ScriptedModel } from '../support/scripted-model-server';
import { ALL_FORMATS, WIRE_FORMATS } from '../support/wire-formats';
import { createWorld, type World } from '../support/world';

let model: ScriptedModel;
let world: World;
let worker: TestWorker;

beforeAll(async () => {
  model = await startScriptedModel();
  world = await createWorld({ modelUrl: model.url });
  worker = await startTestWorker(world, { deps: { allowedModelHosts: [new URL(model.url).host] } });
  for (const protocol of ALL_FORMATS) {
    await world.addAgent({ slug: slugOf(protocol), protocol });
    await world.addAgent({ slug: `own-${slugOf(protocol)}`, protocol, ownerSupplied: true });
  }
});
afterEach(() => model.reset());
afterAll(async () => {
  await worker.stop();
  await world.close();
  await model.stop();
});

function slugOf(protocol: string): string {
  return `at-${protocol.replaceAll('_', '-')}`;
}

async function runOf(slug: string) {
  const { messageId } = await world.post(`@${slug} please`);
  return closedRun(world.db, messageId);
}

/** The next request follows at once. Other tests cover the waits. */
const AT_ONCE = { 'retry-after-ms': '1' };

describe.each(ALL_FORMATS)('%s', (protocol) => {
  const slug = slugOf(protocol);

  test('a reply is posted, and its tokens are in the ledger', async () => {
    const memory = { category: 'fact', content: 'a line', tags: [], visibility: 'shared' } as const;
    model.script(answer.reply({ reply: 'Done.', memory }));
    const run = await runOf(slug);
    expect(run).toMatchObject({
      ending: 'replied',
      requests: [{ outcome: 'answered', inputTokens: 120n, outputTokens: 30n }],
    });
    expect(model.requests.map((request) => request.path)).toEqual([WIRE_FORMATS[protocol].path]);
    expect(await world.db.message.findFirst({ where: { runId: run.id } })).toMatchObject({ text: 'Done.' });
    expect(await world.db.memoryEntry.count({ where: { runId: run.id } })).toBe(1);
  });

  test('a reply without token counts is posted, and its counts are unknown', async () => {
    model.script(answer.reply('Done.', { usage: undefined }));
    expect(await runOf(slug)).toMatchObject({
      ending: 'replied',
      requests: [{ outcome: 'answered', inputTokens: null, outputTokens: null }],
    });
  });

  test('after any failure, the provider gets at most three requests', async () => {
    const failing = [
      answer.error(429, 'rate_limit_error', AT_ONCE),
      answer.with(answer.html(529), { headers: AT_ONCE }),
      answer.error(500, 'api_error', AT_ONCE),
    ];
    model.script(...failing, 'never asked for');
    const run = await runOf(slug);
    expect(run).toMatchObject({ ending: 'busy' });
    expect(run.requests.map((request) => request.outcome)).toEqual(['retry', 'retry', 'retry']);
    await worker.client.workflow.getHandle(run.workflowId).result();
    expect(model.requests).toHaveLength(3);
  });

  test('an answer whose connection breaks inside the body is requested again, and posted once', async () => {
    model.script(answer.resetMidBody(), 'Done.');
    const run = await runOf(slug);
    expect(run).toMatchObject({ ending: 'replied' });
    expect(run.requests.map((request) => [request.outcome, request.code])).toEqual([
      ['retry', 'connection'],
      ['answered', null],
    ]);
    expect(await world.db.message.count({ where: { runId: run.id } })).toBe(1);
    expect(model.requests).toHaveLength(2);
  });

  test.each<[string, ScriptedAnswer, object]>([
    ['used-up quota', answer.error(429, 'insufficient_quota', { 'retry-after': '1' }), { code: 'quota' }],
    ['a rejected key', answer.error(401, null), { code: 'key_rejected' }],
    ['a refusal to answer', answer.reply('', { finishReason: 'content_filter' }), { code: 'model_declined' }],
  ])('after %s no other request is sent, and the task stays open', async (what, refusal, expected) => {
    const fresh = `${slug}-${what.replaceAll(' ', '-')}`;
    await world.addAgent({ slug: fresh, protocol });
    model.script(refusal);
    const { messageId, taskId } = await world.sendTask(fresh, 'write it up');
    const run = await closedRun(world.db, messageId);
    expect(run).toMatchObject({ ending: 'refused', ...expected, steps: [] });
    expect(model.requests).toHaveLength(1);
    expect(await world.db.task.findUniqueOrThrow({ where: { id: taskId } })).toMatchObject({ state: 'in_progress' });
  });

  test("an owner's own address gets only one request, also if its connection breaks", async () => {
    model.script(answer.resetMidBody(), 'never asked for');
    const run = await runOf(`own-${slug}`);
    expect(run).toMatchObject({ ending: 'busy', requests: [{ outcome: 'retry', code: 'connection' }] });
    await worker.client.workflow.getHandle(run.workflowId).result();
    expect(model.requests).toHaveLength(1);
  });

  test('an answer cut off by the token limit has no effect', async () => {
    model.script(answer.reply({ reply: 'half' }, { finishReason: 'length' }));
    expect(await runOf(slug)).toMatchObject({ ending: 'failed', code: 'reply_truncated', reply: null });
  });
});

describe("an owner's address that was written directly to the database", () => {
  const port = (): string => new URL(model.url).port;

  test.each<[string, () => string]>([
    ['loopback, over http', () => `http://127.0.0.2:${port()}/v1`],
    ['loopback, over https', () => `https://localhost:${port()}/v1`],
    ['the metadata address', () => 'https://169.254.169.254/v1'],
    ['the metadata address as one number', () => 'https://2852039166/v1'],
    ['a file', () => 'file:///etc/passwd'],
    ['no URL', () => 'nonsense'],
  ])('is refused when it is called: %s', async (what, url) => {
    const slug = `inside-${what.replaceAll(/\W+/g, '-')}`;
    await world.addAgent({ slug, ownerSupplied: true, modelUrl: url() });
    const run = await runOf(slug);
    expect(run).toMatchObject({ ending: 'refused', code: 'address_refused', requests: [{ outcome: 'refused' }] });
    expect(model.connections).toBe(0);
  });
});

test('a cancelled run aborts its request, and the provider sees the abort in every format', async () => {
  for (const protocol of ALL_FORMATS) {
    model.reset();
    const held = answer.hold('late');
    model.script(held);
    const { messageId } = await world.post(`@${slugOf(protocol)} a long question`);
    await model.waitForRequests(1);
    const { workflowId } = await world.db.run.findFirstOrThrow({ where: { messageId } });
    await worker.client.workflow.getHandle(workflowId).cancel();
    expect(await closedRun(world.db, messageId)).toMatchObject({ ending: 'cancelled' });
    await until('the request to be given up', async () => model.requests[0]?.aborted);
    expect(model.requests).toHaveLength(1);
    held.release();
  }
});
