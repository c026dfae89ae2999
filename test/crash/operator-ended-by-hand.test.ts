// An operator terminates, cancels or deletes an execution before its claim, in its model call, in a step or after its end.
// Then the operator starts the same workflow id again by hand, also over a running execution.

import { randomUUID } from 'node:crypto';
import { caseOpener, NOTHING, ONCE, type Effects, type OpenCase, type OperatorCase } from '../support/operator-cases';
import { operatorActions, type OperatorActions, type Target } from '../support/operator-actions';
import { startOperatorWorker, type OperatorWorker, type HeldAttempt } from '../support/operator-worker';
import { waitForNothingHeld } from '../support/ledger';
import { until } from '../support/runs';
import { answer, startScriptedModel, type ScriptedModel } from '../support/scripted-model-server';
import { createWorld, type World } from '../support/world';
import { dispatchOnce } from '../../worker/dispatcher';
import type { AgentRunResult, Ending } from '../../workflows/contract';

/** The position of the run. `before` and `after`: the attempt of its reply is held before it posts, or after it posted. */
const WHERE = ['unclaimed', 'asking', 'before', 'after', 'closed'] as const;
const HANDS = ['terminated', 'cancelled', 'deleted', 'left'] as const;

interface Case {
  readonly where: (typeof WHERE)[number];
  readonly hand: (typeof HANDS)[number];
  readonly ending: Ending;
  readonly effects: Effects;
}

/** A run at its position, and its held attempt. */
interface Opened {
  readonly it: OperatorCase;
  readonly stand: HeldAttempt | null;
}

const CASES: readonly Case[] = WHERE.flatMap((where) =>
  HANDS.map((hand) => ({ where, hand, ...expected(where, hand) })),
);

function expected(where: Case['where'], hand: Case['hand']): { ending: Ending; effects: Effects } {
  // No execution had claimed the wake: the execution started by hand claims it. A closed run keeps its ending.
  if (where === 'unclaimed' || where === 'closed') return { ending: 'replied', effects: ONCE };
  const effects = where === 'after' ? { ...NOTHING, replies: 1 } : NOTHING;
  return { ending: hand === 'cancelled' ? 'cancelled' : 'lost', effects };
}

let model: ScriptedModel;
let world: World;
let worker: OperatorWorker;
let hands: OperatorActions;
let openCase: OpenCase;
/**
 * The cases whose executions are deleted. They are deleted together, because one deletion takes as long as all. The tests
 * open the other cases: an attempt held during all deletions could be given up before its operator acts.
 */
const deleted = new Map<Case, Opened>();
/** The errors that an operator receives who terminates or cancels an execution that has ended. */
const refusals: unknown[] = [];

beforeAll(async () => {
  model = await startScriptedModel();
  world = await createWorld({ modelUrl: model.url });
  worker = await startOperatorWorker(world);
  hands = operatorActions(worker.client);
  openCase = caseOpener(world, model);

  for (const each of CASES.filter(({ hand }) => hand === 'deleted')) deleted.set(each, await open(each));
  await Promise.all([...deleted].map(([each, { it }]) => applyHand(each, it.target)));
});
afterAll(async () => {
  await worker.stop();
  await waitForNothingHeld(world.db);
  await world.close();
  await model.stop();
});

/** Opens a run at the position of this case. One at a time, because a pass of the dispatcher takes every wake. */
async function open({ where }: Case): Promise<Opened> {
  const it = await openCase(where === 'asking' ? { answers: [answer.hold('too late')] } : {});
  const stand =
    where === 'before' || where === 'after' ? worker.holdAttempt(it.room.agent.id, 'postReply', where) : null;
  await (where === 'unclaimed' ? dispatchWithoutWorker() : worker.dispatch());
  if (where === 'asking') await until('the request to arrive', async () => it.requests().length === 1);
  if (where === 'closed') await hands.result(it.target);
  await stand?.reached;
  return { it, stand };
}

/** Starts due wakes on a queue without workers, so they stay unclaimed. */
async function dispatchWithoutWorker(): Promise<void> {
  const taskQueue = `no-worker-${randomUUID()}`;
  await dispatchOnce({ db: world.db, client: worker.client, taskQueue, onStartFailed: () => undefined });
}

async function applyHand({ where, hand }: Case, target: Target): Promise<void> {
  const ending = (work: Promise<unknown>) =>
    where === 'closed' ? work.catch((error: unknown) => refusals.push(error)) : work;
  switch (hand) {
    case 'terminated':
      await ending(hands.terminate(target));
      return;
    case 'cancelled':
      await ending(hands.cancel(target));
      return;
    case 'deleted':
      await hands.delete(target);
      await hands.gone(target);
      return;
    case 'left':
      return;
  }
}

test.each(CASES)('$where and $hand, then started again by hand: $ending, acted at most once', async (each) => {
  const { it, stand } = deleted.get(each) ?? (await open(each));
  if (!deleted.has(each)) await applyHand(each, it.target);
  const input = { agent: it.room.agent.id, message: it.messageId };
  const cancels = each.hand === 'cancelled' && each.ending === 'cancelled';
  // The execution receives the cancel request and ends its run itself.
  if (cancels) await it.closed();
  const again = await hands.startOver(worker.taskQueue, it.target.workflowId, input);
  const result = await hands.result({ ...it.target, temporalRunId: again });
  const { id } = await it.claimed();
  const wanted: AgentRunResult =
    each.where === 'unclaimed'
      ? { result: 'ended', run: id, ending: 'replied' }
      : { result: 'fenced', why: 'already_claimed', run: id };
  expect(result).toEqual(wanted);

  const reconciled = each.ending === 'lost';
  if (reconciled)
    await until(
      'the run to be closed as lost',
      async () => (await worker.reconcile()) && (await stateOf(id)) === 'closed',
    );
  // The held attempt continues after the end and is fenced.
  stand?.resume();
  await stand?.over;
  const run = await it.closed();
  expect(run).toMatchObject({ ending: each.ending, fencedCount: each.where === 'unclaimed' ? 0 : 1 });
  expect(await it.effects()).toEqual(each.effects);
  expect(it.requests()).toHaveLength(1);
  if (each.where === 'asking') {
    await until('the request to be aborted', async () => it.requests().every((request) => request.aborted));
  }
  await it.expectConsistent();
});

test('terminating an ended execution is refused; cancelling it is accepted and has no effect', () => {
  expect(refusals.map((error) => (error as Error).name)).toEqual(['WorkflowNotFoundError']);
});

test('an attempt that continues after its execution was terminated, before the reconciler runs, acts once', async () => {
  const it = await openCase();
  const stand = worker.holdAttempt(it.room.agent.id, 'postReply', 'before');
  await worker.dispatch();
  await stand.reached;
  await hands.terminate(it.target);
  stand.resume();
  await until('the reply', async () => (await it.effects()).replies === 1);
  await worker.reconcile();
  const run = await it.closed();
  expect(run.ending).toBe('lost');
  // The ledger has the step as done, although Temporal did not receive its result.
  expect(run.steps.map((step) => step.state)).toEqual(['done', 'not_reached', 'not_reached', 'not_reached']);
  expect(await it.effects()).toEqual({ ...NOTHING, replies: 1 });
  await it.expectConsistent();
});

test('a run closed as lost after its execution was terminated stays lost when the wake is started by hand', async () => {
  const it = await openCase();
  await dispatchWithoutWorker();
  await hands.terminate(it.target);
  await worker.reconcile();
  const run = await it.closed();
  const input = { agent: it.room.agent.id, message: it.messageId };
  const again = await hands.startOver(worker.taskQueue, it.target.workflowId, input);
  const result = await hands.result({ ...it.target, temporalRunId: again });
  expect(result).toEqual({ result: 'fenced', why: 'already_claimed', run: run.id });
  expect(await it.closed()).toMatchObject({ ending: 'lost', fencedCount: 1 });
  expect(await it.effects()).toEqual(NOTHING);
  expect(it.requests()).toHaveLength(0);
  await it.expectConsistent();
});

async function stateOf(id: string): Promise<string> {
  return (await world.db.run.findUniqueOrThrow({ where: { id } })).state;
}
