// Injects faults into a worker, its connections or its servers while runs are held at their crash points.

import { randomBytes } from 'node:crypto';
import { decideAfterFault } from './crash-holds';
import type { CrashServers } from './crash-servers';
import {
  hasEnded,
  holdCasesOf,
  isOfRun,
  openCrashRuns,
  holdAllRuns,
  type CrashCase,
  type CrashRun,
} from './crash-runs';
import { readOutcome, readRooms, type CrashOutcome } from './crash-outcome';
import { waitForNothingHeld } from './ledger';
import { until } from './runs';
import type { ScriptedModel } from './scripted-model-server';
import { forkWorker, workerEnv, type WorkerProcess } from './worker-processes';
import { createWorld, type World } from './world';
import type { CrashPoint } from './crash-points';

export const CRASH_FAULTS = {
  worker_killed: 'SIGKILL of the worker; another one is started',
  worker_frozen: 'SIGSTOP of the worker until every run has ended on another one, then SIGCONT',
  connection_cut: 'the connection is cut at the next COMMIT of the run, which is done',
  postgres_stopped:
    'PostgreSQL is stopped (fast shutdown) and started on its folder and port, then the worker continues',
  postgres_killed: 'PostgreSQL is killed (SIGKILL) and started on its folder and port, then the worker continues',
  temporal_killed:
    'the Temporal server is killed (SIGKILL) and started on its file and port, then the worker continues',
} as const;
export type CrashFault = keyof typeof CRASH_FAULTS;
export const ALL_CRASH_FAULTS = Object.keys(CRASH_FAULTS) as CrashFault[];

/** Every run must end within this time after the fault. The longest wait in it is until the steps of a dead worker time out. */
export const ENDS_WITHIN_MS = 120_000;
const HELD_WITHIN_MS = 20_000;
/** The shutdown grace of a worker is 10 s. */
const STOPS_WITHIN_MS = 60_000;
const POLL_MS = 200;

/** Why the fault has no effect at this point, or null. */
export function whyNotApplicable(fault: CrashFault, point: CrashPoint): string | null {
  if (fault === 'connection_cut' && point === 'decision:parked') return 'the worker has no work of the run';
  if (fault !== 'connection_cut' || !/^((sendTask|closeRun):(committed|acknowledged)|decision:sent)$/.test(point))
    return null;
  return 'no COMMIT of the run is left after this point; the last one is cut at the points before it';
}

/** The replacement, if the fault is not possible at exactly this point; else null. */
export function replacementOf(fault: CrashFault, point: CrashPoint): string | null {
  if (fault !== 'connection_cut' || /:(reply_)?inside$/.test(point)) return null;
  return 'the point is not a COMMIT: the first COMMIT after it is cut';
}

export interface CrashBatch {
  readonly runs: readonly CrashRun[];
  /** In the order of the runs. */
  readonly outcomes: readonly CrashOutcome[];
  /** From the creation of the world to the last check. */
  readonly seconds: number;
}

export interface CrashBatchOptions {
  readonly fault: CrashFault;
  readonly cases: readonly CrashCase[];
  readonly model: ScriptedModel;
  /** Null for a fault that restarts no server. */
  readonly servers: Pick<CrashServers, 'restartPostgres' | 'restartTemporal'> | null;
  readonly onProgress?: (what: string, ended: number) => void;
  /** When it is aborted, no further process is started. */
  readonly signal?: AbortSignal;
}

/** Long time-outs for the worker that gets the fault, so that every run reaches its point and none times out before. */
function victimEnv(fault: CrashFault): Record<string, string> {
  const common = { DATABASE_POOL_SIZE: '60', RUN_TIME_LIMIT_SECONDS: '600' };
  switch (fault) {
    case 'worker_frozen':
      return common;
    case 'worker_killed':
      // Short, because the other worker waits this long for the steps of the dead worker.
      return {
        ...common,
        CRASH_TRANSACTION_SECONDS: '600',
        RUN_STEP_TIMEOUT_SECONDS: '10',
        RUN_HEARTBEAT_SECONDS: '10',
      };
    case 'connection_cut':
    case 'postgres_stopped':
    case 'postgres_killed':
    case 'temporal_killed':
      return {
        ...common,
        CRASH_TRANSACTION_SECONDS: '600',
        RUN_STEP_TIMEOUT_SECONDS: '60',
        RUN_HEARTBEAT_SECONDS: '60',
        RUN_MODEL_TIMEOUT_SECONDS: '120',
        ...(fault === 'connection_cut' ? { CRASH_CUT: 'after_commit' } : {}),
      };
  }
}

/** Holds the run of every case at its point in a new world, injects the fault once for all, and reads how each run ended. */
export async function runCrashBatch(options: CrashBatchOptions): Promise<CrashBatch> {
  const { fault, cases, model, onProgress = () => undefined } = options;
  const startedAt = Date.now();
  const world = await createWorld({ modelUrl: model.url });
  const workers: WorkerProcess[] = [];
  try {
    const plain = workerEnv(world, `crash-${randomBytes(6).toString('hex')}`);
    onProgress('opening rooms', 0);
    const runs = await openCrashRuns(world, model, cases);
    options.signal?.throwIfAborted();
    const victim = await holdAllRuns(world, { ...plain, ...victimEnv(fault) }, runs, (count) =>
      onProgress(`${count} of ${runs.length} runs are held at their points`, 0),
    );
    workers.push(victim);
    const startOther = async (): Promise<void> => {
      options.signal?.throwIfAborted();
      const other = forkWorker({ ...plain, RUN_TIME_LIMIT_SECONDS: '600' });
      workers.push(other);
      await other.ready;
    };
    onProgress(CRASH_FAULTS[fault], 0);
    const faultAt = Date.now();
    await injectFault(options, victim, startOther);
    const deciding = decideAfterFault(world, holdCasesOf(runs)).catch((error: Error) => [error.message]);
    const troubles = await waitForEndings(world, runs, faultAt, {
      onEnded: (ended) => onProgress(`${ended} of ${runs.length} runs have ended`, ended),
      victim: fault === 'worker_killed' || fault === 'worker_frozen' ? null : victim,
      startOther,
    });
    troubles.push(...((await deciding) ?? []));
    const before = fault === 'worker_frozen' ? await readRooms(world, runs) : null;
    onProgress('waiting for the open work of the worker', runs.length);
    if (fault === 'worker_frozen') {
      victim.go();
      victim.child.kill('SIGCONT');
    }
    troubles.push(...(await stopWorker(victim)));
    onProgress('looking for locks', runs.length);
    await waitForNothingHeld(world.db, HELD_WITHIN_MS).catch((error: Error) => troubles.push(error.message));
    onProgress('comparing ledgers with rooms', runs.length);
    const after = before === null ? null : await readRooms(world, runs);
    const outcomes = await inBatches(runs, async (run) => {
      const outcome = await readOutcome(world, model, run, faultAt);
      const why = [...troubles, ...outcome.why];
      if (before?.get(run) !== after?.get(run)) why.push('the worker changed something after SIGCONT');
      const cut = victim.cuts.find(({ workflowId }) => isOfRun(workflowId, run)) ?? null;
      if (fault === 'connection_cut' && cut === null) why.push('its connection was not cut');
      return { ...outcome, why, cut };
    });
    return { runs, outcomes, seconds: (Date.now() - startedAt) / 1_000 };
  } finally {
    for (const worker of workers) await worker.kill();
    await world.close();
  }
}

/** Works on at most six items at a time, because the pool of a world has eight connections. */
async function inBatches<T, R>(items: readonly T[], work: (item: T) => Promise<R>): Promise<R[]> {
  const AT_ONCE = 6;
  const results: R[] = [];
  for (let at = 0; at < items.length; at += AT_ONCE) {
    results.push(...(await Promise.all(items.slice(at, at + AT_ONCE).map(work))));
  }
  return results;
}

async function injectFault(
  { fault, servers }: CrashBatchOptions,
  victim: WorkerProcess,
  startOther: () => Promise<void>,
): Promise<void> {
  if (servers === null && !['worker_killed', 'worker_frozen', 'connection_cut'].includes(fault)) {
    throw new Error(`${fault} needs servers that can be restarted`);
  }
  switch (fault) {
    case 'worker_killed':
      await victim.kill();
      return startOther();
    case 'worker_frozen':
      victim.child.kill('SIGSTOP');
      return startOther();
    case 'connection_cut':
      return victim.go();
    case 'postgres_stopped':
      await servers?.restartPostgres('fast');
      return victim.go();
    case 'postgres_killed':
      await servers?.restartPostgres('kill');
      return victim.go();
    case 'temporal_killed':
      await servers?.restartTemporal();
      return victim.go();
  }
}

/** Waits until every run has ended. Resolves with the problems that no single run caused. */
async function waitForEndings(
  world: World,
  runs: readonly CrashRun[],
  faultAt: number,
  watch: { onEnded: (count: number) => void; victim: WorkerProcess | null; startOther: () => Promise<void> },
): Promise<string[]> {
  const troubles: string[] = [];
  while (Date.now() - faultAt < ENDS_WITHIN_MS) {
    // The first query after a restart of the server fails.
    const ended = await world.db.run.count({ where: { state: 'closed' } }).catch(() => 0);
    watch.onEnded(ended);
    if (ended >= runs.length) break;
    if (troubles.length === 0 && watch.victim !== null && hasEnded(watch.victim)) {
      troubles.push(
        `the worker ended during the fault (${watch.victim.child.signalCode ?? watch.victim.child.exitCode})`,
      );
      await watch.startOther();
    }
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
  }
  return troubles;
}

/** Sends SIGTERM and resolves when the worker has ended. The result is a list of problems. */
async function stopWorker(worker: WorkerProcess): Promise<string[]> {
  if (hasEnded(worker)) return [];
  worker.child.kill('SIGTERM');
  try {
    await until('the worker to stop after SIGTERM', async () => hasEnded(worker), STOPS_WITHIN_MS);
  } catch (error) {
    return [(error as Error).message];
  }
  return worker.child.exitCode === 0 ? [] : [`the worker ended with exit code ${worker.child.exitCode} after SIGTERM`];
}
