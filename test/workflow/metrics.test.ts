// The values of /metrics after real runs: each number must match the events that the test caused.

import { closeAsLost } from '../../prisma/store/runs/fence';
import { wakeWorkflowId } from '../../workflows/contract';
import { closedRun, until } from '../support/run-waits';
import { answer, startScriptedModel, type ScriptedModel } from '../support/scripted-model-server';
import { startService, type TestService } from '../support/service';
import { createWorld, type World } from '../support/world';

let model: ScriptedModel;
let world: World;
let service: TestService;

beforeAll(async () => {
  model = await startScriptedModel();
  world = await createWorld({ modelUrl: model.url });
  service = await startService(world);
});
afterAll(async () => {
  await service.stop();
  await world.close();
  await model.stop();
});

/** The value of one series, or 0 if the series is missing. */
async function valueOf(series: string): Promise<number> {
  const { status, text } = await service.get('/metrics');
  expect(status).toBe(200);
  const line = text.split('\n').find((one) => one.startsWith(`${series} `));
  return line === undefined ? 0 : Number(line.slice(series.length + 1));
}

test('a run that replies is counted once at each of its stages, with the tokens that its answer reported', async () => {
  model.script(answer.reply('secret words of the reply'));
  const { messageId } = await world.post('@scribe secret words of the message');
  const run = await closedRun(world.db, messageId);
  // The activity returns a moment after its transaction, which the ledger already shows.
  await until(
    'the last activity to be counted',
    async () => (await valueOf('durable_room_activity_seconds_count{activity="postReply",outcome="done"}')) === 1,
  );
  expect(await valueOf('durable_room_wakes_dispatched_total{outcome="started"}')).toBe(1);
  expect(await valueOf('durable_room_claims_total{outcome="granted",why=""}')).toBe(1);
  expect(await valueOf('durable_room_runs_ended_total{ending="replied"}')).toBe(1);
  expect(await valueOf('durable_room_model_requests_total{protocol="openai_compatible",outcome="reply"}')).toBe(1);
  const used = run.requests[0];
  expect(Number(used?.inputTokens)).toBeGreaterThan(0);
  expect(await valueOf('durable_room_model_tokens_total{protocol="openai_compatible",direction="input"}')).toBe(
    Number(used?.inputTokens),
  );
  expect(await valueOf('durable_room_model_tokens_total{protocol="openai_compatible",direction="output"}')).toBe(
    Number(used?.outputTokens),
  );
  expect(await valueOf('durable_room_backlog{what="runs_open"}')).toBe(0);
});

test('a second execution counts as a refused claim, and an attempt after the ending counts as fenced', async () => {
  const [first] = await world.db.run.findMany();
  const { client } = service.temporal;
  await client.workflow.execute('agentRun', {
    workflowId: 'by hand',
    taskQueue: service.taskQueue,
    args: [{ agent: first?.agentId, message: first?.messageId }],
  });
  expect(await valueOf('durable_room_claims_total{outcome="refused",why="already_claimed"}')).toBe(1);

  const held = answer.hold();
  model.script(held);
  const { messageId } = await world.post('@scribe a long one');
  await model.waitForRequests(2);
  expect(await valueOf('durable_room_backlog{what="runs_open"}')).toBe(1);
  expect(await valueOf('durable_room_oldest_seconds{what="runs_open"}')).toBeGreaterThan(0);
  const run = await world.db.run.findFirstOrThrow({ where: { messageId } });
  await closeAsLost(world.db, run.id);
  held.release();
  await client.workflow.getHandle(wakeWorkflowId(world.scribe.id, messageId)).result();
  expect(await valueOf('durable_room_fenced_total{activity="callModel",why="closed"}')).toBe(1);
  expect(await valueOf('durable_room_runs_ended_total{ending="lost"}')).toBe(1);
});

test('suppressed wakes are counted by reason, at the post and at the delivery', async () => {
  const agent = { where: { id: world.scribe.id } };
  const paused = 'durable_room_wakes_caused_total{state="suppressed",reason="paused"}';
  await world.db.agent.update({ ...agent, data: { pausedAt: new Date() } });
  await world.post('@scribe one for no agent');
  expect(await valueOf(paused)).toBe(1);
  // The state after a gate closed behind the written wake: the dispatcher finds it.
  await world.db.wake.updateMany({ where: { state: 'suppressed' }, data: { state: 'pending', reason: null } });
  await service.waitForPass('dispatcher');
  expect(await valueOf(paused)).toBe(2);
  await world.db.agent.update({ ...agent, data: { pausedAt: null } });
});

test('no label and no line contains an id, a key or content', async () => {
  const { text } = await service.get('/metrics');
  expect(text).toContain('durable_room_claims_total');
  expect(text).not.toMatch(/(room|agent|co|run|wake|msg|mk|key)_[0-9a-z]{20,}/);
  expect(text).not.toMatch(/secret words|sk-test-key|a long one|scribe|Larkspur/i);
});

test('the log names each run by its ids, from its claim to its ending, and contains no content', async () => {
  const run = await world.db.run.findFirstOrThrow({ where: { ending: 'replied' } });
  const logged = service.lines.filter((line) => line['run'] === run.id && line['level'] === 30);
  const execution = { workflow: run.workflowId, execution: run.temporalRunId, attempt: 1 };
  expect(logged).toMatchObject([
    {
      msg: 'run claimed',
      wake: run.wakeId,
      room: world.roomId,
      agent: run.agentId,
      message: run.messageId,
      ...execution,
    },
    { msg: 'run ended', ending: 'replied', step: 'reply', ...execution },
  ]);
  expect(JSON.stringify(service.lines)).not.toMatch(/secret words|sk-test-key|a long one/);
});

test('the health port shows that the process is alive and ready, and how long wakes have waited', async () => {
  expect(await service.get('/healthz')).toMatchObject({ status: 200 });
  const { status, text } = await service.get('/readyz');
  expect(status).toBe(200);
  expect(JSON.parse(text)).toMatchObject({ ready: true, warnings: [], details: { worker: 'RUNNING' } });
});
