// A loop: passes follow the interval, a trigger or their own result; start and stop are idempotent; each pass is reported.

import { createLoop, type PassReport } from '../../worker/loop';
import { createLoopPasses } from '../support/loop-passes';

const HOUR_MS = 3_600_000;

/** A loop whose passes end when the test ends them. */
function manualLoop(intervalMs = HOUR_MS) {
  const passes: { end(more: boolean): void; fail(error: Error): void }[] = [];
  const reports: PassReport[] = [];
  const errors: unknown[] = [];
  const loop = createLoop<boolean>({
    intervalMs,
    runOnce: () => new Promise((end, fail) => passes.push({ end, fail })),
    onError: (error) => errors.push(error),
    onPass: (report) => reports.push(report),
  });
  return { loop, passes, reports, errors };
}

const settle = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

test('a pass with more work is followed by another at once, any other pass by the interval or a trigger', async () => {
  const { loop, passes } = manualLoop();
  loop.start();
  loop.start();
  expect(passes).toHaveLength(1);
  passes[0]?.end(true);
  await settle();
  expect(passes).toHaveLength(2);
  passes[1]?.end(false);
  await settle();
  expect(passes).toHaveLength(2);
  loop.trigger();
  await settle();
  expect(passes).toHaveLength(3);
  // During a pass: that pass may have missed the reason for the trigger.
  loop.trigger();
  passes[2]?.end(false);
  await settle();
  expect(passes).toHaveLength(4);
  passes[3]?.end(false);
  await loop.stop();
});

test('stop resolves when the current pass ends, and no other pass begins', async () => {
  const { loop, passes } = manualLoop();
  loop.start();
  let stopped = false;
  const stopping = Promise.all([loop.stop(), loop.stop()]).then(() => (stopped = true));
  await settle();
  expect(stopped).toBe(false);
  passes[0]?.end(true);
  await stopping;
  loop.start();
  await settle();
  expect(passes).toHaveLength(1);
});

test('a pass that throws is reported, and the loop continues', async () => {
  const { loop, passes, reports, errors } = manualLoop();
  const error = new Error('no database');
  loop.start();
  passes[0]?.fail(error);
  await settle();
  expect([errors, loop.lastSuccessAt]).toEqual([[error], null]);
  loop.trigger();
  await settle();
  passes[1]?.end(false);
  await loop.stop();
  expect(reports).toMatchObject([
    { ok: false, error },
    { ok: true, result: false },
  ]);
  expect(loop.lastSuccessAt).toBeInstanceOf(Date);
});

test('waitForPass resolves with the first pass of that loop that begins after the call', async () => {
  const { onPass, waitForPass } = createLoopPasses();
  const earlier: PassReport = { startedAt: new Date(Date.now() - 1_000), ok: true, result: 'earlier' };
  const waiting = waitForPass('dispatcher', (pass) => pass.ok);
  onPass('dispatcher', earlier);
  onPass('signals', { ...earlier, startedAt: new Date(), result: 'another loop' });
  onPass('dispatcher', { startedAt: new Date(), ok: false, error: 'not accepted' });
  onPass('dispatcher', { startedAt: new Date(), ok: true, result: 'wanted' });
  await expect(waiting).resolves.toMatchObject({ result: 'wanted' });
});
