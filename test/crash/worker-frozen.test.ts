// A worker freezes with a run at every crash point, its activities time out, and it continues after all runs have ended on
// another worker. Its late work changes no room, no ledger and no claim.

import { randomBytes } from 'node:crypto';
import { countParked, decideAfterFault, decideBeforeFault, holdTaskSends } from '../support/crash-holds';
import { ALL_CRASH_POINTS, type CrashPoint } from '../support/crash-points';
import { expectLedgerEqualsRoom, waitForNothingHeld } from '../support/ledger';
import { declareEveryKind, openRoom, type TestRoom } from '../support/rooms';
import { until } from '../support/runs';
import { answer, startScriptedModel, type ScriptedModel } from '../support/scripted-model-server';
import { endWorkers, forkCrashWorker, forkWorker, workerEnv } from '../support/worker-processes';
import { createWorld, type World } from '../support/world';
import { MODEL_REQUESTS_LIMIT, ON_CRASH, type OnCrash } from '../../workflows/contract';

const CASES: readonly { point: CrashPoint; onCrash: OnCrash }[] = ALL_CRASH_POINTS.flatMap((point) =>
  ON_CRASH.map((onCrash) => ({ point, onCrash })),
);

let model: ScriptedModel;
let world: World;

beforeAll(async () => {
  model = await startScriptedModel();
  world = await createWorld({ modelUrl: model.url });
});
afterAll(async () => {
  await endWorkers();
  await world.close();
  await model.stop();
});

/** All rows that a run could change, except the count of fenced executions. */
async function readAllRows(): Promise<unknown> {
  const { db } = world;
  const runs = await db.run.findMany({ orderBy: { id: 'asc' }, omit: { fencedCount: true, dueAt: true } });
  return {
    runs,
    claims: await db.agentRunLock.findMany({ orderBy: { runId: 'asc' } }),
    steps: await db.runStep.findMany({ orderBy: [{ runId: 'asc' }, { position: 'asc' }] }),
    requests: await db.modelRequest.findMany({ orderBy: [{ runId: 'asc' }, { number: 'asc' }] }),
    events: await db.roomEvent.findMany({ orderBy: [{ roomId: 'asc' }, { seq: 'asc' }] }),
    messages: await db.message.findMany({ orderBy: { id: 'asc' } }),
    memory: await db.memoryEntry.findMany({ orderBy: { id: 'asc' } }),
    tasks: await db.task.findMany({ orderBy: { id: 'asc' } }),
  };
}

test('a worker that freezes at every crash point and continues after all runs ended changes nothing', async () => {
  const env = {
    ...workerEnv(world, `test-${randomBytes(6).toString('hex')}`),
    DATABASE_POOL_SIZE: '60',
    RUN_TIME_LIMIT_SECONDS: '600',
  };
  const answers = new Map<string, ReturnType<typeof answer.reply>>();
  model.respond((request) => {
    const shown = request.textOf('user');
    for (const [text, scripted] of answers) if (shown.includes(text)) return scripted;
    throw new Error('the request belongs to no case');
  });
  const rooms: TestRoom[] = [];
  for (const [index, { point, onCrash }] of CASES.entries()) {
    const room = await openRoom(world, { name: String(index), modelUrl: model.url, onCrash });
    await holdTaskSends(world, { point, agentId: room.agent.id });
    const marker = `case ${index} of ${CASES.length}.`;
    const { taskId } = await room.sendTask(marker);
    const refused = answer.error(401, 'invalid_api_key');
    answers.set(marker, point.startsWith('closeRun:') ? refused : answer.reply(declareEveryKind(room, taskId)));
    rooms.push(room);
  }
  const points = CASES.map(({ point }, index) => `${point}@${rooms[index]?.agent.id}`);
  // Without the SDK's limit of 5 s on workflow code: Node aborts a process when the time-out of a `vm` passes in a microtask
  // (nodejs/node#38503), and this time-out counts the time in which the process is frozen.
  const frozen = forkCrashWorker({ ...env, TEMPORAL_DEBUG: '1' }, { points, action: 'stop' });
  await frozen.ready;
  const cases = CASES.map(({ point }, index) => ({ point, agentId: rooms[index]?.agent.id as string }));
  await decideBeforeFault(world, cases);
  const stopped = CASES.length - countParked(CASES);
  await until('every run to reach its point', async () => frozen.stops.length === stopped);
  frozen.child.kill('SIGSTOP');

  const second = forkWorker(env);
  await second.ready;
  await decideAfterFault(world, cases);
  const closed = async () => (await world.db.run.count({ where: { state: 'closed' } })) === CASES.length;
  await until('every run to end', closed);
  await waitForNothingHeld(world.db);
  const before = await readAllRows();
  const requests = model.requests.length;

  frozen.go();
  frozen.child.kill('SIGCONT');
  // It exits when its activities have ended.
  frozen.child.kill('SIGTERM');
  await frozen.ended;
  expect(frozen.child.exitCode).toBe(0);
  expect(await readAllRows()).toEqual(before);
  await second.kill();
  await waitForNothingHeld(world.db);

  // Only the frozen worker may still send a request that it claimed and had not sent. The request has no effect.
  expect(model.requests.length).toBeLessThanOrEqual(requests + 2 * ON_CRASH.length);
  const runs = await world.db.run.findMany({ include: { requests: { orderBy: { number: 'asc' } }, claim: true } });
  for (const run of runs) {
    expect(['replied', 'partial', 'failed', 'refused']).toContain(run.ending);
    expect(run.requests.length).toBeLessThanOrEqual(MODEL_REQUESTS_LIMIT);
    expect(run.requests.filter((request) => request.outcome === 'answered').length).toBeLessThanOrEqual(1);
    await expectLedgerEqualsRoom(world.db, run.id);
  }
});
