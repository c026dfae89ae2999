// A run cancelled through the API while its worker executes it: the call in progress is aborted, and the worker is free.

import { wakeWorkflowId } from '../../workflows/contract';
import { openWorldApi, type WorldApi } from '../support/world-api';
import { expectLedgerEqualsRoom } from '../support/ledger';
import { closedRun, startTestWorker, until, type TestWorker } from '../support/runs';
import { answer, startScriptedModel, type ScriptedModel } from '../support/scripted-model-server';
import { createWorld, type World } from '../support/world';

let model: ScriptedModel;
let world: World;
let worker: TestWorker;
let api: WorldApi;

beforeAll(async () => {
  model = await startScriptedModel();
  world = await createWorld({ modelUrl: model.url });
  worker = await startTestWorker(world);
  api = await openWorldApi(world);
});
afterAll(async () => {
  await api.close();
  await worker.stop();
  await world.close();
  await model.stop();
});

test('during its model call: cancelled at once, the request is aborted without an effect, and the next run starts', async () => {
  const held = answer.hold('too late');
  model.script(held);
  const { messageId } = await world.post('@scribe a long question');
  await model.waitForRequests(1);
  const { id } = await world.db.run.findFirstOrThrow({ where: { messageId } });
  expect((await api.host.member.post(`/v1/runs/${id}/cancel`)).body).toMatchObject({ ending: 'cancelled' });
  await until('the request to be given up', async () => model.requests[0]?.aborted);
  held.release();
  const handle = worker.client.workflow.getHandle(wakeWorkflowId(world.scribe.id, messageId));
  await expect(handle.result()).resolves.toMatchObject({ ending: 'cancelled' });
  await expectLedgerEqualsRoom(world.db, id);
  expect(await world.db.message.count({ where: { runId: id } })).toBe(0);

  model.script(answer.reply('On time.'));
  const next = await world.post('@scribe a short one');
  expect((await closedRun(world.db, next.messageId)).ending).toBe('replied');
});

test('while it waits for its next request: it ends without sending the request', async () => {
  model.script(answer.error(429, 'rate_limit_exceeded', { 'retry-after': '15' }));
  const sent = model.requests.length;
  const { messageId } = await world.post('@scribe later');
  await model.waitForRequests(sent + 1);
  const { id } = await until('the request to be recorded', () =>
    world.db.run.findFirst({ where: { messageId, requests: { some: { outcome: 'retry' } } } }),
  );
  await api.host.member.post(`/v1/runs/${id}/cancel`);
  const handle = worker.client.workflow.getHandle(wakeWorkflowId(world.scribe.id, messageId));
  await expect(handle.result()).resolves.toMatchObject({ ending: 'cancelled' });
  expect(model.requests).toHaveLength(sent + 1);
  await expectLedgerEqualsRoom(world.db, id);
});

test('without a running worker: cancelled at once, and a later worker finds nothing to do', async () => {
  const queue = `later-${Date.now()}`;
  const first = await startTestWorker(world, { taskQueue: queue, dispatch: false });
  await worker.stop();
  try {
    model.script(answer.hold('never'));
    const { messageId } = await world.post('@scribe and then');
    const sent = model.requests.length;
    await first.dispatch();
    await model.waitForRequests(sent + 1);
    const { id } = await world.db.run.findFirstOrThrow({ where: { messageId } });
    const stopping = first.stop();
    expect((await api.host.member.post(`/v1/runs/${id}/cancel`)).body).toMatchObject({ ending: 'cancelled' });
    await stopping;
    const second = await startTestWorker(world, { taskQueue: queue });
    const handle = second.client.workflow.getHandle(wakeWorkflowId(world.scribe.id, messageId));
    await expect(handle.result()).resolves.toMatchObject({ ending: 'cancelled' });
    await expectLedgerEqualsRoom(world.db, id);
    await second.stop();
  } finally {
    worker = await startTestWorker(world);
  }
});
