// A budget through Temporal: the ending of a run settles its used tokens, and a wake that does not fit is suppressed.

import { until, closedRun, startTestWorker, type TestWorker } from '../support/runs';
import { answer, startScriptedModel, type ScriptedModel } from '../support/scripted-model-server';
import { budgetViolations } from '../support/budgets';
import { createWorld, type World } from '../support/world';

let model: ScriptedModel;
let world: World;
let worker: TestWorker;

beforeAll(async () => {
  model = await startScriptedModel();
  world = await createWorld({ modelUrl: model.url });
  worker = await startTestWorker(world);
});
afterAll(async () => {
  await worker.stop();
  await world.close();
  await model.stop();
});

test('runs settle the tokens that the provider reported, and a wake that does not fit is suppressed', async () => {
  await world.db.agent.update({ where: { id: world.scribe.id }, data: { tokensPerDay: 500, tokensPerRun: 250 } });
  model.script(answer.reply('One.'), answer.reply('Two.'));
  for (const text of ['@scribe one', '@scribe two']) {
    const { messageId } = await world.post(text);
    const run = await closedRun(world.db, messageId);
    expect(run.ending).toBe('replied');
    const used = run.requests.reduce((sum, each) => sum + (each.inputTokens ?? 0n) + (each.outputTokens ?? 0n), 0n);
    expect(used).toBe(150n);
    expect(await world.db.tokenReservation.findFirstOrThrow({ where: { messageId } })).toMatchObject({
      reserved: 250n,
      settled: used,
    });
  }
  // 300 of 500 tokens are used, so a reservation of 250 does not fit.
  const { messageId } = await world.post('@scribe three');
  const wake = await until('the wake to be suppressed', () =>
    world.db.wake.findFirst({ where: { messageId, state: 'suppressed' } }),
  );
  expect(wake).toMatchObject({ reason: 'budget', deliveredAt: null });
  expect(model.requests).toHaveLength(2);
  expect(await budgetViolations(world.db)).toEqual([]);
});
