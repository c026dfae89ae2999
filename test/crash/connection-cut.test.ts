// The connection to Postgres is cut after a COMMIT took effect, at every crash point and under both policies: the worker
// does not receive the answer, and continues. test/workflow/lost-answers.test.ts also loses the COMMIT itself.

import type { CrashOutcome } from '../support/crash-outcome';
import { runCrashBatch, whyNotApplicable, type CrashBatch } from '../support/crash-faults';
import { holdsAt } from '../support/crash-holds';
import { ALL_CRASH_POINTS, type CutMessage } from '../support/crash-points';
import type { CrashCase } from '../support/crash-runs';
import { startScriptedModel, type ScriptedModel } from '../support/scripted-model-server';
import { endWorkers } from '../support/worker-processes';
import { ON_CRASH } from '../../workflows/contract';

const ACTING = ['postReply', 'writeMemory', 'updateTask', 'sendTask'] as const;
/** Points without a later COMMIT of the run, or where the worker has nothing of the run. */
const NOT_APPLICABLE = 6;

const CASES: readonly CrashCase[] = ON_CRASH.flatMap((onCrash) =>
  ALL_CRASH_POINTS.filter((point) => whyNotApplicable('connection_cut', point) === null).map((point) => ({
    point,
    onCrash,
  })),
);

let model: ScriptedModel;
let batch: CrashBatch;

beforeAll(async () => {
  model = await startScriptedModel();
  batch = await runCrashBatch({ fault: 'connection_cut', cases: CASES, model, servers: null });
});
afterAll(async () => {
  await endWorkers();
  await model.stop();
});

/** The outcome of a run after a COMMIT without an answer: the next read of the ledger finds the step done. */
function expectedAfter({ activity, transaction }: CutMessage, { point, onCrash }: CrashCase): Partial<CrashOutcome> {
  if (activity === 'closeRun') return { ending: 'refused', steps: [] };
  // A held action that waits for approval when its run ends is superseded.
  const left = holdsAt(point) ? 'superseded' : 'not_reached';
  const position = ACTING.findIndex((name) => name === activity);
  const last = ACTING.length - 1;
  if (position >= 0 && position < last && onCrash === 'stop') {
    const steps = ACTING.map((_, index) => (index <= position ? 'done' : index === last ? left : 'not_reached'));
    return { ending: 'partial', code: 'outcome_unknown', steps };
  }
  // A claimed request counts even if it was not sent. An answer stays in the worker's memory until it is stored.
  const ledger = activity === 'callModel' && transaction === 1 ? ['unknown', 'answered'] : ['answered'];
  return { ending: 'replied', code: null, steps: ACTING.map(() => 'done'), requests: { ledger, sent: 1 } };
}

test('the cases include every point under both policies, except the points without a later COMMIT', () => {
  expect(CASES).toHaveLength(ON_CRASH.length * (ALL_CRASH_POINTS.length - NOT_APPLICABLE));
});

test.each(CASES)('$point, on_crash $onCrash: the run has the expected outcome', (each) => {
  const outcome = batch.outcomes[CASES.indexOf(each)] as CrashOutcome;
  expect(outcome.why).toEqual([]);
  expect(outcome.fenced).toBe(0);
  expect(outcome).toMatchObject(expectedAfter(outcome.cut as CutMessage, each));
});
