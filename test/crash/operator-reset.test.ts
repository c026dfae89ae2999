// `workflow reset` of a finished run and of an open run, to every possible event. The copy is another execution and does
// nothing; the effects of the run stay done once.

import {
  ACTING,
  caseOpener,
  NOTHING,
  ONCE,
  STEPS,
  type Effects,
  type OpenCase,
  type OperatorCase,
} from '../support/operator-cases';
import { operatorActions, type EventId, type OperatorActions } from '../support/operator-actions';
import { startOperatorWorker, type ActivityName, type OperatorWorker } from '../support/operator-worker';
import { waitForNothingHeld } from '../support/ledger';
import { until } from '../support/runs';
import { startScriptedModel, type ScriptedModel } from '../support/scripted-model-server';
import { createWorld, type World } from '../support/world';
import { ON_CRASH, type AgentRunResult, type Ending } from '../../workflows/contract';

/** A run has one workflow task before each activity, and one that ends the run. */
const ACTIVITIES: readonly ActivityName[] = ['claimMessage', 'callModel', ...ACTING];

let model: ScriptedModel;
let world: World;
let worker: OperatorWorker;
let hands: OperatorActions;
let openCase: OpenCase;

beforeAll(async () => {
  model = await startScriptedModel();
  world = await createWorld({ modelUrl: model.url });
  worker = await startOperatorWorker(world);
  hands = operatorActions(worker.client);
  openCase = caseOpener(world, model);
});
afterAll(async () => {
  await worker.stop();
  await waitForNothingHeld(world.db);
  await world.close();
  await model.stop();
});

/** The result of a copy whose first open activity has this position. */
function fencedAt(position: number, run: string): AgentRunResult {
  return { result: 'fenced', why: position === 0 ? 'already_claimed' : 'not_mine', run };
}

/** The effects of the first `count` acting steps. */
function effectsUpTo(count: number): Effects {
  const names = Object.keys(NOTHING).slice(0, count);
  return { ...NOTHING, ...Object.fromEntries(names.map((name) => [name, 1])) };
}

async function pointsOf(opened: OperatorCase, expected: number): Promise<EventId[]> {
  const { workflowId, temporalRunId } = await opened.claimed();
  const points = await hands.resetPoints({ workflowId, temporalRunId });
  expect(points).toHaveLength(expected);
  return points;
}

test.each(ON_CRASH)('a finished run under %s, reset to each of its workflow tasks, acts once', async (onCrash) => {
  const opened = await openCase({ onCrash });
  await worker.dispatch();
  const run = await opened.closed();
  await hands.result(run);
  const points = await pointsOf(opened, ACTIVITIES.length + 1);

  const results: AgentRunResult[] = [];
  for (const point of points) {
    const copy = await hands.reset(run, point);
    results.push(await hands.result({ ...run, temporalRunId: copy }));
  }
  // A copy from the last workflow task runs no activity and returns the result.
  const last: AgentRunResult = { result: 'ended', run: run.id, ending: 'replied' };
  expect(results).toEqual([...ACTIVITIES.map((_, position) => fencedAt(position, run.id)), last]);

  const after = await opened.closed();
  expect(after).toMatchObject({ ending: 'replied', fencedCount: ACTIVITIES.length });
  expect(await opened.effects()).toEqual(ONCE);
  expect(opened.requests()).toHaveLength(1);
  expect(await worker.reconcile()).toMatchObject({ checked: 0 });
  await opened.expectConsistent();
});

test('a copy of a copy of a finished run is also fenced', async () => {
  const opened = await openCase();
  await worker.dispatch();
  const run = await opened.closed();
  await hands.result(run);
  const { workflowId } = run;
  let { temporalRunId } = run;
  for (let turn = 0; turn < 3; turn += 1) {
    const point = (await hands.resetPoints({ workflowId, temporalRunId }))[2] as EventId;
    temporalRunId = await hands.reset({ workflowId, temporalRunId }, point);
    expect(await hands.result({ workflowId, temporalRunId })).toEqual({
      result: 'fenced',
      why: 'not_mine',
      run: run.id,
    });
  }
  expect((await opened.closed()).fencedCount).toBe(3);
  expect(await opened.effects()).toEqual(ONCE);
  await opened.expectConsistent();
});

interface Running {
  /** The activity whose attempt has acted without an answer to Temporal. */
  readonly activity: ActivityName;
  /** The index of the workflow task to which the execution is reset. */
  readonly point: number;
}

const RUNNING: readonly Running[] = ACTIVITIES.flatMap((activity, position) =>
  Array.from({ length: position + 1 }, (_, point) => ({ activity, point })),
);

/** The ending of a run whose first `acted` steps are done and whose execution was reset. */
function endingOf(acted: number): Ending {
  return acted === STEPS.length ? 'replied' : 'lost';
}

describe('a run is reset after an attempt acted without an answer to Temporal', () => {
  const opened = new Map<Running, OperatorCase>();

  beforeAll(async () => {
    for (const each of RUNNING) opened.set(each, await openCase());
    const stands = RUNNING.map((each) => {
      const { agent } = (opened.get(each) as OperatorCase).room;
      return worker.holdAttempt(agent.id, each.activity, 'after');
    });
    await worker.dispatch();
    // All at once, and each ended attempt continues at once. An attempt held until all others are held would be given up
    // and retried.
    const copies = RUNNING.map(async (each, index) => {
      const { claimed, target } = opened.get(each) as OperatorCase;
      await stands[index]?.reached;
      const { temporalRunId } = await claimed();
      const points = await hands.resetPoints({ ...target, temporalRunId });
      expect(points).toHaveLength(ACTIVITIES.indexOf(each.activity) + 1);
      await hands.reset({ ...target, temporalRunId }, points[each.point] as EventId);
      stands[index]?.resume();
      await stands[index]?.over;
      await hands.result(target);
    });
    // Before the reconciler runs: it signals an open copy, which then checks its claim again and is counted twice.
    await Promise.all(copies);
  });

  test.each(RUNNING)('in $activity, to workflow task $point: fenced, and no step acts twice', async (each) => {
    const { claimed, closed, target, effects, requests, expectConsistent } = opened.get(each) as OperatorCase;
    const { id } = await claimed();
    expect(await hands.result(target)).toEqual(fencedAt(each.point, id));
    await until('the run to be closed', async () => {
      await worker.reconcile();
      return (await world.db.run.findUniqueOrThrow({ where: { id } })).state === 'closed';
    });
    const acted = Math.max(0, ACTIVITIES.indexOf(each.activity) - 1);
    expect(await closed()).toMatchObject({ ending: endingOf(acted), fencedCount: 1 });
    expect(await effects()).toEqual(effectsUpTo(acted));
    expect(requests()).toHaveLength(each.activity === 'claimMessage' ? 0 : 1);
    await expectConsistent();
  });
});
