// Many parked runs: a worker that starts again executes none of them before its decision, and when all are decided at once,
// each action is executed once. `npm run bench` does the same with a thousand runs.

import { decide, SEND, setRights } from '../support/held-actions';
import { expectGaplessRoom } from '../support/ledger';
import { openParkedWorld, type ParkedWorld } from '../support/parked';
import { startTestWorker, until } from '../support/runs';

const RUNS = 60;

let ground: ParkedWorld;

beforeAll(async () => {
  ground = await openParkedWorld();
});
afterAll(() => ground.close());

test(`${RUNS} parked runs: no workflow task while they wait, and all end after they are decided at once`, async () => {
  const { world, model, api } = ground;
  const { db } = world;
  await ground.withoutWorker(async (taskQueue) => {
    const first = await startTestWorker(world, { taskQueue });
    ground.worker = first;
    await setRights(world, { task_send: 'hold' });
    model.respond(() => JSON.stringify({ reply: null, memory: null, task_updates: [], tasks_to_send: [SEND] }));
    const posted = await world.postMany(RUNS, (n) => `@scribe number ${n}`);
    await until('all to park', async () => (await db.run.count({ where: { parkedAt: { not: null } } })) === RUNS);
    const lengths = async (): Promise<number[]> =>
      Promise.all(
        posted.map(async ({ messageId }) => {
          return (await ground.workflowOf(messageId).describe()).historyLength;
        }),
      );
    for (const { messageId } of posted) await ground.untilReportedParked(messageId);
    const before = await lengths();
    await first.stop();

    // A workflow task of a run would add events to its history.
    const second = await startTestWorker(world, { taskQueue });
    const other = await world.post('@scribe one more');
    await ground.untilParked(other.messageId);
    ground.worker = second;
    expect(await lengths()).toEqual(before);

    const runs = await db.run.findMany({ where: { messageId: { in: posted.map((each) => each.messageId) } } });
    const answers = await Promise.all(
      runs.map((run) => decide(world, api.host.member, run.id, 'task_send:1', 'approve')),
    );
    expect(answers.map(({ status }) => status)).toEqual(runs.map(() => 200));
    await until('all to end', async () => (await db.run.count({ where: { state: 'closed' } })) === RUNS);
    const tasks = await db.task.groupBy({ by: ['runId'], _count: true });
    expect(tasks.map((each) => each._count)).toEqual(runs.map(() => 1));
    expect(await db.heldAction.count({ where: { state: 'executed' } })).toBe(RUNS);
    expect(await db.run.count({ where: { ending: 'silent' } })).toBe(RUNS);
    await expectGaplessRoom(db, world.roomId);
    await second.stop();
  });
});
