// One wake, end to end below the API: message → wake → run → reply in the feed.

import { answer, startScriptedModel, type ScriptedModel } from '../support/scripted-model-server';
import { closedRun, startTestWorker, type TestWorker } from '../support/runs';
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

test('a message that addresses an agent gets exactly one reply', async () => {
  model.script(answer.reply('Hello from the scribe.'));
  const posted = await world.post('@scribe please say hello');
  const run = await closedRun(world.db, posted.messageId);
  expect(run).toMatchObject({ ending: 'replied', code: null, fencedCount: 0, context: null });
  expect(run.steps).toMatchObject([{ stepKey: 'reply', state: 'done' }]);
  expect(run.requests).toMatchObject([{ number: 1, outcome: 'answered' }]);
  const replies = await world.db.message.findMany({ where: { runId: run.id } });
  expect(replies).toMatchObject([{ text: 'Hello from the scribe.', hop: 1, refersTo: posted.messageId }]);
});
