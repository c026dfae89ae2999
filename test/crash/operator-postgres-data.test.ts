// Postgres is restored to an earlier point than Temporal. Effects that it still has are not repeated, lost effects may be,
// and the reconciler closes every run in it.

import { randomBytes } from 'node:crypto';
import { caseOpener, NOTHING, ONCE, type Effects, type OperatorCase } from '../support/operator-cases';
import { operatorActions } from '../support/operator-actions';
import { startOwnPostgres, type OwnServer } from '../support/operator-servers';
import { startOperatorWorker, type OperatorWorker } from '../support/operator-worker';
import { expectLedgerEqualsRoom, waitForNothingHeld } from '../support/ledger';
import { until } from '../support/runs';
import { answer, startScriptedModel, type ScriptedModel } from '../support/scripted-model-server';
import { endWorkers, forkCrashWorker, workerEnv } from '../support/worker-processes';
import { createWorld, type World } from '../support/world';
import type { Ending } from '../../workflows/contract';

let model: ScriptedModel;
let postgres: OwnServer;
let world: World;
let worker: OperatorWorker | undefined;
const shared = process.env['TEST_DATABASE_URL_BASE'];

beforeAll(async () => {
  model = await startScriptedModel();
  postgres = await startOwnPostgres();
  process.env['TEST_DATABASE_URL_BASE'] = postgres.address;
  world = await createWorld({ modelUrl: model.url });
});
afterAll(async () => {
  await worker?.stop();
  await endWorkers();
  await waitForNothingHeld(world.db);
  await world.close();
  process.env['TEST_DATABASE_URL_BASE'] = shared;
  await postgres.dispose();
  await model.stop();
});

/** Stops the server, runs `meanwhile` on its folder, and starts it again. No worker may use it during that time. */
async function restart(meanwhile: () => Promise<void>): Promise<void> {
  await postgres.stop();
  await meanwhile();
  await postgres.start();
  // The pool notices lost connections when it uses them.
  await until('the server to answer', () =>
    world.db.room.count().then(
      (count) => count > 0,
      () => false,
    ),
  );
}

async function expectEnded(it: OperatorCase, ending: Ending, effects: Effects): Promise<void> {
  const run = await it.closed();
  expect(run.ending).toBe(ending);
  expect(await it.effects()).toEqual(effects);
  await expectLedgerEqualsRoom(world.db, run.id);
}

/** The rows of the ledger and of the room. */
async function snapshot({ messageId, room }: OperatorCase): Promise<unknown> {
  const { db } = world;
  return {
    run: await db.run.findFirstOrThrow({
      where: { messageId },
      include: { steps: true, requests: { orderBy: { number: 'asc' } } },
    }),
    events: await db.roomEvent.findMany({ where: { roomId: room.id }, orderBy: { seq: 'asc' } }),
  };
}

test('after Postgres is restored to an earlier point, no effect in it is repeated and every run in it ends', async () => {
  const taskQueue = `operator-${randomBytes(6).toString('hex')}`;
  const openCase = caseOpener(world, model);
  const done = await openCase();
  const asking = await openCase();
  const acted = await openCase({ onCrash: 'resume' });
  const still = await openCase({ answers: [answer.hold(), answer.hold()] });
  const points = [
    `callModel:sent@${asking.room.agent.id}`,
    `postReply:committed@${acted.room.agent.id}`,
    `callModel:sent@${still.room.agent.id}`,
  ];
  const env = { ...workerEnv(world, taskQueue), RUN_TIME_LIMIT_SECONDS: '600', RUN_MODEL_TIMEOUT_SECONDS: '300' };
  const victim = forkCrashWorker(env, { points, action: 'stop' });
  await until('every run to reach its point', async () => victim.stops.length === points.length);
  await done.closed();
  await victim.kill();
  const pending = await openCase();
  const held = await snapshot(done);
  await restart(() => postgres.save());

  // Postgres will lose the following: all but one of these runs end, and new messages, runs and rooms are created.
  const first = await startOperatorWorker(world, { taskQueue });
  worker = first;
  await first.dispatch();
  for (const it of [asking, acted, pending]) await expectEnded(it, 'replied', ONCE);
  const forgotten = await done.another();
  const halfway = await openCase({ onCrash: 'resume' });
  const stand = first.holdAttempt(halfway.room.agent.id, 'writeMemory', 'before');
  await first.dispatch();
  await expectEnded(forgotten, 'replied', ONCE);
  await stand.reached;
  await until('the second request of the run that stays open', async () => still.requests().length === 2);
  for (const it of [asking, acted, pending, forgotten]) await operatorActions(first.client).result(it.target);
  await first.stop();
  worker = undefined;
  const asked = model.requests.length;
  await restart(() => postgres.restore());
  expect(await world.db.run.count({ where: { messageId: forgotten.messageId } })).toBe(0);

  const second = await startOperatorWorker(world, { taskQueue });
  worker = second;
  const hands = operatorActions(second.client);
  // Postgres lost this run, but Temporal has its execution, which no longer owns a run.
  expect(await hands.result(halfway.target)).toMatchObject({ result: 'fenced', why: 'not_mine' });
  // Its workflow was already started, which counts as a successful start. It has also ended.
  expect(await second.dispatch()).toMatchObject({ started: 1, failed: 0 });
  await until('the reconciler to close every run', async () => {
    await second.reconcile();
    return (await world.db.wake.count({ where: { state: 'delivered' } })) === 0;
  });
  await expectEnded(asking, 'lost', NOTHING);
  await expectEnded(acted, 'lost', { ...NOTHING, replies: 1 });
  await expectEnded(pending, 'lost', NOTHING);
  // Its execution is open and owns its run: it continues, and repeats the request that the ledger has lost.
  await expectEnded(still, 'replied', ONCE);
  expect((await still.closed()).requests.map((request) => request.outcome)).toEqual(['unknown', 'answered']);
  expect(await snapshot(done)).toEqual(held);
  for (const it of [done, asking, acted, pending, still]) await it.expectConsistent();
  expect(model.requests).toHaveLength(asked + 1);

  // A lost message may be posted again.
  const again = await done.another();
  await second.dispatch();
  await expectEnded(again, 'replied', ONCE);
  await again.expectConsistent();
  await second.untilNoneOpen();
  expect(await second.reconcile()).toMatchObject({ checked: 0, acted: 0 });
});
