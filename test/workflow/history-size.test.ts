// The cost of a run that only replies: activities, history events, bytes and statements. The numbers are exact, not timings.

import pg from 'pg';
import { wakeWorkflowId } from '../../workflows/contract';
import { answer, startScriptedModel, type ScriptedModel } from '../support/scripted-model-server';
import { startTestWorker, until, type TestWorker } from '../support/runs';
import { createWorld, type World } from '../support/world';

let model: ScriptedModel;
let world: World;
let worker: TestWorker;

beforeAll(async () => {
  model = await startScriptedModel();
  world = await createWorld({ modelUrl: model.url });
  worker = await startTestWorker(world, { dispatch: false, sticky: '1 minute' });
});
afterAll(async () => {
  await worker.stop();
  await world.close();
  await model.stop();
});

/**
 * Every statement that a connection of this process sends, except those that only open and close a transaction. Installed
 * before the first connection, because the pool keeps the methods that it finds then.
 */
function countStatements(): { begin(): void; texts: string[] } {
  const counter = { texts: [] as string[], begin: () => void (counter.texts.length = 0) };
  const { query } = pg.Client.prototype;
  const counted = function (this: pg.Client, ...args: unknown[]): unknown {
    const [first] = args;
    const text = typeof first === 'string' ? first : ((first as { text?: string } | undefined)?.text ?? '');
    if (!/^\s*(BEGIN|COMMIT|ROLLBACK)/i.test(text)) counter.texts.push(text);
    return (query as (...all: unknown[]) => unknown).apply(this, args);
  };
  pg.Client.prototype.query = counted as typeof query;
  return counter;
}

const statements = countStatements();

test('a run that only replies takes 3 activities, at most 25 events, 4 kB of history and 20 statements', async () => {
  model.script(answer.reply('Hello.'), answer.reply('Hello again.'));
  // The first run opens connections. The second has the cost of every later run.
  await replyTo('@scribe hello');
  const { workflowId } = await replyTo('@scribe hello again');
  const spent = statements.texts.length;
  const handle = worker.client.workflow.getHandle(workflowId);
  const { events } = await handle.fetchHistory();
  expect(events?.filter((event) => event.activityTaskScheduledEventAttributes)).toHaveLength(3);
  expect(events?.length).toBeLessThanOrEqual(25);
  expect(await until('the size of the history', async () => (await handle.describe()).historySize)).toBeLessThan(4_096);
  // The dispatcher's own worker got the first workflow task with the answer to the start.
  expect(events?.[0]?.workflowExecutionStartedEventAttributes?.eagerExecutionAccepted).toBe(true);
  expect(spent).toBeGreaterThan(8);
  expect(spent).toBeLessThanOrEqual(20);
});

async function replyTo(text: string): Promise<{ workflowId: string }> {
  const posted = await world.post(text);
  // The statements of the post belong to the API, not to the run.
  statements.begin();
  await worker.dispatch();
  const workflowId = wakeWorkflowId(world.scribe.id, posted.messageId);
  await expect(worker.client.workflow.getHandle(workflowId).result()).resolves.toMatchObject({ ending: 'replied' });
  return { workflowId };
}
