// Counts the runs that a message causes: agents that answer each other stop at the hop limit, one cause is one run, and a
// task for one agent wakes no other agent.

import { eventsOf } from '../support/store-runs';
import { startTestWorker, until, type TestWorker } from '../support/runs';
import { startScriptedModel, type ScriptedModel } from '../support/scripted-model-server';
import { createWorld, type World } from '../support/world';

const HOP_LIMIT = 4;

let model: ScriptedModel;
let world: World;
let worker: TestWorker;

beforeAll(async () => {
  model = await startScriptedModel();
  world = await createWorld({ modelUrl: model.url });
  await world.db.room.update({ where: { id: world.roomId }, data: { hopLimit: HOP_LIMIT } });
  for (const slug of ['ana', 'ben', 'cleo']) await world.addAgent({ slug });
  worker = await startTestWorker(world);
});
afterAll(async () => {
  await worker.stop();
  await world.close();
  await model.stop();
});

/** The runs after all wakes and runs have ended. */
async function settledRuns() {
  await until('nothing to be left to run', async () => {
    // One statement: the end of a run and the wake that it causes commit in one transaction.
    const [left] = await world.db.$queryRaw<{ n: number }[]>`
      SELECT (SELECT count(*) FROM wakes WHERE state IN ('pending', 'delivered'))::int
             + (SELECT count(*) FROM runs WHERE state = 'open')::int AS n`;
    return left?.n === 0;
  });
  return world.db.run.findMany({ orderBy: { id: 'asc' } });
}

test('two agents that always name each other stop at the hop limit, visibly in the room, until a person posts again', async () => {
  model.respond((request) => (/"scribe"/i.test(request.textOf('system')) ? '@scout your turn' : '@scribe your turn'));
  for (const round of [1, 2]) {
    await world.post('@scribe begin');
    const runs = await settledRuns();
    // The first wake has hop 0, and the last has the limit.
    expect(runs).toHaveLength(round * (HOP_LIMIT + 1));
    expect(new Set(runs.map((run) => run.ending))).toEqual(new Set(['replied']));
    const stopped = await eventsOf(world, 'wake_suppressed');
    expect(stopped.map((event) => event.data)).toMatchObject(Array(round).fill({ reason: 'hop_limit' }));
  }
});

test('an agent that names itself wakes no agent', async () => {
  const before = (await settledRuns()).length;
  model.respond(() => '@ana, that is me');
  await world.post('@ana who are you');
  expect(await settledRuns()).toHaveLength(before + 1);
});

test('a task whose goal also names its recipient is one run, and so is a message that names an agent three times', async () => {
  model.respond(() => 'ok');
  const before = (await settledRuns()).length;
  await world.sendTask('ana', '@ana please, @Ana!');
  expect(await settledRuns()).toHaveLength(before + 1);
  await world.post('@ben @ben, and again @Ben');
  expect(await settledRuns()).toHaveLength(before + 2);
});

test('a task for one of five agents wakes only that agent', async () => {
  const before = (await settledRuns()).length;
  await world.sendTask('cleo', 'tell everybody: scribe, scout, ana, ben');
  const runs = await settledRuns();
  const cleo = await world.db.agent.findFirstOrThrow({ where: { slug: 'cleo' } });
  expect(runs.slice(before).map((run) => run.agentId)).toEqual([cleo.id]);
});
