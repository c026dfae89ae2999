// The connection to Postgres is cut at a COMMIT that is done, at every crash point and under both policies: the worker does
// not hear of it, and goes on. test/workflow/lost-answers.test.ts also loses the COMMIT itself.

import type { CrashOutcome } from '../support/crash-outcome';
import { runCrashBatch, whyNotApplicable, type CrashBatch } from '../support/crash-faults';
import { holdsAt } from '../support/crash-holds';
import { ALL_CRASH_POINTS, type CutMessage } from '../support/crash-points';
import type { CrashCase } from '../support/crash-runs';
import { startScriptedModel, type ScriptedModel } from '../support/scripted-model-server';
import { endWorkers } from '../support/worker-processes';
import { ON_CRASH } from '../../workflows/contract';

const ACTING = ['postReply', 'writeMemory', 'updateTask', 'sendTask'] as const;
/** No COMMIT is left after them, or nothing of the run is in the worker. */
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

/** What a run comes to whose COMMIT was done and not heard of: the step is known to be done once somebody looks. */
function expectedAfter({ activity, transaction }: CutMessage, { point, onCrash }: CrashCase): Partial<CrashOutcome> {
  if (activity === 'closeRun') return { ending: 'refused', steps: [] };
  // Something that waits for its yes when the run ends has lost its run.
  const left = holdsAt(point) ? 'superseded' : 'not_reached';
  const place = ACTING.findIndex((name) => name === activity);
  const last = ACTING.length - 1;
  if (place >= 0 && place < last && onCrash === 'stop') {
    const steps = ACTING.map((_, index) => (index <= place ? 'done' : index === last ? left : 'not_reached'));
    return { ending: 'partial', code: 'outcome_unknown', steps };
  }
  // A request that is claimed counts, sent or not; an answer is in hand until it is stored.
  const ledger = activity === 'callModel' && transaction === 1 ? ['unknown', 'answered'] : ['answered'];
  return { ending: 'replied', code: null, steps: ACTING.map(() => 'done'), requests: { ledger, sent: 1 } };
}

test('every point is here, under both policies, but for those with no COMMIT after them', () => {
  expect(CASES).toHaveLength(ON_CRASH.length * (ALL_CRASH_POINTS.length - NOT_APPLICABLE));
});

test.each(CASES)('$point, on_crash $onCrash: as promised', (each) => {
  const outcome = batch.outcomes[CASES.indexOf(each)] as CrashOutcome;
  expect(outcome.why).toEqual([]);
  expect(outcome.fenced).toBe(0);
  expect(outcome).toMatchObject(expectedAfter(outcome.cut as CutMessage, each));
});
