// The retry delay that an attempt of the model call returns to Temporal: the wait before each request, and when to stop.

import type { ApplicationFailure, Context } from '@temporalio/activity';
import { activitiesOf, openRun, type OpenRun } from '../support/store-runs';
import { answer, startScriptedModel, type ScriptedAnswer, type ScriptedModel } from '../support/scripted-model-server';
import { ALL_FORMATS } from '../support/wire-formats';
import { createWorld, type World } from '../support/world';

let model: ScriptedModel;
let world: World;

beforeAll(async () => {
  model = await startScriptedModel();
  world = await createWorld({ modelUrl: model.url });
});
afterEach(() => model.reset());
afterAll(async () => {
  await world.close();
  await model.stop();
});

/** Runs one attempt. Returns the wait before the next attempt, or the status of the settled call. */
async function attempt(run: OpenRun): Promise<unknown> {
  const { workflowId, temporalRunId } = run.execution;
  const context = {
    info: {
      workflowExecution: { workflowId, runId: temporalRunId },
      startToCloseTimeoutMs: 20_000,
      scheduleToCloseTimeoutMs: 300_000,
      scheduledTimestampMs: 0,
      currentAttemptScheduledTimestampMs: 0,
    },
    cancellationSignal: new AbortController().signal,
    heartbeat: () => undefined,
  };
  const { callModel } = activitiesOf(world, run.execution, world.db, 0, context as unknown as Partial<Context>);
  try {
    return (await callModel({ run: run.id })).status;
  } catch (error) {
    const { type, nonRetryable, nextRetryDelay } = error as ApplicationFailure;
    expect({ type, nonRetryable }).toEqual({ type: 'ModelBusy', nonRetryable: false });
    return nextRetryDelay;
  }
}

async function attempts(...answers: ScriptedAnswer[]): Promise<unknown[]> {
  model.script(...answers);
  const run = await openRun(world);
  const outcomes = [];
  for (const _ of answers) outcomes.push(await attempt(run));
  // After the call has settled, a further attempt sends nothing.
  if (outcomes.includes('settled')) expect(await attempt(run)).toBe('settled');
  expect(model.requests).toHaveLength(answers.length);
  return outcomes;
}

const limited = (headers: Record<string, string>) => answer.error(429, 'rate_limit_exceeded', headers);

describe.each(ALL_FORMATS)('%s', (protocol) => {
  beforeAll(() => world.db.modelKey.updateMany({ data: { provider: protocol } }));

  test.each<[string, ScriptedAnswer]>([
    ['429 without a wait', limited({})],
    ['429 with "soon"', limited({ 'retry-after': 'soon' })],
    ['429 with "6m0s"', limited({ 'retry-after': '6m0s' })],
    ['529', answer.error(529, 'overloaded_error')],
    ['500', answer.error(500, null)],
    ['502', answer.raw(502, '')],
    ['504', answer.raw(504, '')],
    ['520', answer.html(520)],
    ['a reset body', answer.resetMidBody()],
    ['a page with status 200', answer.html(200)],
  ])('waits two seconds, then eight, and then gets the reply: %s', async (_what, failing) => {
    expect(await attempts(failing, failing, answer.reply('Done.'))).toEqual([2_000, 8_000, 'reply']);
  });

  test('sends no fourth request after the third', async () => {
    const failing = answer.error(500, null);
    expect(await attempts(failing, failing, failing)).toEqual([2_000, 8_000, 'settled']);
  });
});

describe('a wait that the provider names', () => {
  test.each<[string, Record<string, string>, number]>([
    ['0', { 'retry-after': '0' }, 1],
    ['a past date', { 'retry-after': 'Thu, 01 Jan 2026 00:00:00 GMT' }, 1],
    ['20', { 'retry-after': '20' }, 20_000],
    ['800 ms beside 1 s', { 'retry-after-ms': '800', 'retry-after': '1' }, 800],
    ['2', { 'retry-after': '2' }, 2_000],
  ])('is used before the second and third request: %s', async (_what, headers, wait) => {
    expect(await attempts(limited(headers), limited(headers), answer.reply('Done.'))).toEqual([wait, wait, 'reply']);
  });

  test.each(['21', '86400'])('settles the call if it is longer than 20 s: %s', async (wait) => {
    expect(await attempts(limited({ 'retry-after': wait }))).toEqual(['settled']);
  });
});
