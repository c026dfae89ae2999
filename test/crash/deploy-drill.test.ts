// Deploys under load: fifty open runs, two workers, and a rolling restart every few seconds. After SIGTERM no run loses a
// step and no model request is repeated. After SIGKILL runs take longer and some end early, but none acts twice.

import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { Transient } from '../../prisma/store/db/errors';
import { expectGaplessRoom, expectLedgerEqualsRoom, waitForNothingHeld } from '../support/ledger';
import { until } from '../support/runs';
import { answer, startScriptedModel, type ScriptedModel } from '../support/scripted-model-server';
import { endWorkers, forkWorker, workerEnv, type WorkerProcess } from '../support/worker-processes';
import { createWorld, type World } from '../support/world';
import type { Ending } from '../../workflows/contract';

const MESSAGES = 150;
const IN_FLIGHT = 50;
const AGENTS = ['ana', 'ben', 'cleo', 'dan', 'eva'];
/** Long enough that most open runs wait for the model when a worker stops. */
const MODEL_MS = 300;
const BETWEEN_RESTARTS_MS = 2_000;
const LEAST_RESTARTS = 3;

let model: ScriptedModel;
const worlds: World[] = [];

beforeAll(async () => {
  const memory = { category: 'fact', content: 'It was done.', tags: [], visibility: 'shared' } as const;
  model = await startScriptedModel({ respond: () => answer.reply({ reply: 'Done.', memory }, { delayMs: MODEL_MS }) });
});
afterEach(() => model.reset());
afterAll(async () => {
  await endWorkers();
  for (const world of worlds) await world.close();
  await model.stop();
});

interface Drill {
  readonly world: World;
  readonly messageIds: readonly string[];
  readonly restarts: number;
  /** The time of Postgres' clock. */
  readonly lastStopAt: Date;
  readonly exits: readonly (string | number | null)[];
}

/** Runs one drill until its last run has ended. A new worker is ready before an old one gets the signal. */
async function drill(signal: 'SIGTERM' | 'SIGKILL', env: Record<string, string>): Promise<Drill> {
  const world = await createWorld({ modelUrl: model.url, poolSize: 12 });
  worlds.push(world);
  for (const slug of AGENTS) await world.addAgent({ slug });
  const all = { ...workerEnv(world, `test-${randomBytes(6).toString('hex')}`), ...env };
  const workers: WorkerProcess[] = [forkWorker(all), forkWorker(all)];
  await Promise.all(workers.map((worker) => worker.ready));

  const posted = (): Promise<number> => world.db.wake.count();
  const ended = (): Promise<number> => world.db.run.count({ where: { state: 'closed' } });
  const posting = Promise.all(
    AGENTS.map(async (slug) => {
      for (let count = await posted(); count < MESSAGES; count = await posted()) {
        if (count - (await ended()) >= IN_FLIGHT) await sleep(50);
        else await world.post(`@${slug} message in a deploy`).catch(ignoreTransient);
      }
    }),
  );
  let isPosting = true;
  void posting.finally(() => (isPosting = false)).catch(() => undefined);

  const exits: (string | number | null)[] = [];
  let lastStopAt = new Date(0);
  while (isPosting || exits.length < LEAST_RESTARTS) {
    await sleep(BETWEEN_RESTARTS_MS);
    const next = forkWorker(all);
    await next.ready;
    workers.push(next);
    const old = workers.shift() as WorkerProcess;
    const [{ now }] = await world.db.$queryRaw<[{ now: Date }]>`SELECT clock_timestamp() AS now`;
    lastStopAt = now;
    old.child.kill(signal);
    await old.ended;
    exits.push(old.child.signalCode ?? old.child.exitCode);
  }
  await posting;
  await until('every run to end', async () => (await ended()) === (await posted()));
  for (const worker of workers) {
    worker.child.kill('SIGTERM');
    await worker.ended;
  }
  const messages = await world.db.message.findMany({ where: { authorKind: 'person' } });
  return { world, messageIds: messages.map((message) => message.id), restarts: exits.length, lastStopAt, exits };
}

/** A post without an answer in time may be stored or not. The test counts the messages that the room has. */
function ignoreTransient(error: unknown): void {
  if (!(error instanceof Transient)) throw error;
}

/** Fails if an effect of these runs exists twice or is not in the ledger. Returns the runs. */
async function expectNothingTwice({ world, messageIds }: Drill) {
  const { db } = world;
  const runs = await db.run.findMany({
    include: { claim: true, requests: { orderBy: { number: 'asc' } }, steps: true },
  });
  expect(runs.map((run) => run.messageId).sort()).toEqual([...messageIds].sort());
  expect(messageIds.length).toBeGreaterThanOrEqual(MESSAGES);
  expect(await db.agentRunLock.count()).toBe(messageIds.length);
  expect(new Set(runs.map((run) => run.fencedCount))).toEqual(new Set([0]));
  const replies = await db.message.findMany({ where: { authorKind: 'agent' } });
  expect(new Set(replies.map((reply) => reply.refersTo)).size).toBe(replies.length);
  for (const run of runs) await expectLedgerEqualsRoom(db, run.id);
  await expectGaplessRoom(db, world.roomId);
  const room = await db.room.findUniqueOrThrow({ where: { id: world.roomId } });
  expect(room.runAllowance).toBe(1_000 - messageIds.length);
  await waitForNothingHeld(db);
  return runs;
}

function countEndings(runs: readonly { ending: string | null }[]): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const { ending } of runs) counts[ending ?? 'open'] = (counts[ending ?? 'open'] ?? 0) + 1;
  return counts;
}

test('in a rolling restart by SIGTERM under 50 open runs, every run replies and no model request is repeated', async () => {
  const patient = {
    RUN_TIME_LIMIT_SECONDS: '600',
    RUN_STEP_TIMEOUT_SECONDS: '30',
    RUN_MODEL_TIMEOUT_SECONDS: '120',
    RUN_HEARTBEAT_SECONDS: '30',
    WORKER_SHUTDOWN_GRACE_SECONDS: '60',
  };
  const drilled = await drill('SIGTERM', patient);
  expect(new Set(drilled.exits)).toEqual(new Set([0]));
  const runs = await expectNothingTwice(drilled);
  const count = drilled.messageIds.length;
  console.log(`${drilled.restarts} restarts by SIGTERM under ${count} messages`);
  expect(countEndings(runs)).toEqual({ replied: count });
  expect(runs.flatMap((run) => run.steps.map((step) => step.state))).toEqual(Array(2 * count).fill('done'));
  expect(runs.flatMap((run) => run.requests.map((request) => request.outcome))).toEqual(Array(count).fill('answered'));
  expect(model.requests).toHaveLength(count);
});

test('in a rolling restart by SIGKILL, no run acts twice and every run has an ending', async () => {
  const drilled = await drill('SIGKILL', { RUN_TIME_LIMIT_SECONDS: '300', RECONCILE_SECONDS: '10' });
  expect(new Set(drilled.exits)).toEqual(new Set(['SIGKILL']));
  const runs = await expectNothingTwice(drilled);
  const last = Math.max(...runs.map((run) => run.closedAt?.getTime() ?? 0));
  console.log(
    `${drilled.restarts} kills under ${runs.length} messages; from the last kill to the last ending ` +
      `${Math.max(0, last - drilled.lastStopAt.getTime()) / 1_000} s; ${JSON.stringify(countEndings(runs))}`,
  );
  // A run ends early only if the kill interrupted a step. The other runs reply on another worker.
  const possible: ReadonlySet<string | null> = new Set<Ending>(['replied', 'partial', 'failed']);
  expect(runs.map((run) => run.ending).filter((ending) => !possible.has(ending))).toEqual([]);
  expect(countEndings(runs)['replied']).toBeGreaterThan(0);
  const recorded = runs.reduce((sum, run) => sum + run.requests.length, 0);
  expect(model.requests.length).toBeLessThanOrEqual(recorded);
});
