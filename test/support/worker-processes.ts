// Starts worker processes for tests: the compiled worker, or the crash worker. Each is ended by its pid.

import { fork, type ChildProcess } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import type { CrashPoint, CutMessage, GoMessage, ReachedMessage } from './crash-points';
import { COMPILED } from './compiled';
import { temporalAddress } from './run-waits';
import { MASTER_KEYS } from './world';

export const WORKER_MAIN = join(COMPILED, 'worker', 'main.js');
export const CRASH_WORKER_MAIN = join(COMPILED, 'test', 'support', 'crash-worker.js');

/** A start costs two seconds of CPU, and several workers start at the same time on a busy machine. */
const READY_MS = 60_000;

export interface WorkerProcess {
  readonly child: ChildProcess;
  /** Resolves when the worker polls; rejects if it ends first. */
  readonly ready: Promise<void>;
  /** Resolves when a run is or was held at this point. Rejects if the process ends first. */
  reached(point: CrashPoint): Promise<ReachedMessage>;
  /** Every run that has reached its point so far. */
  readonly stops: readonly ReachedMessage[];
  /** Every connection that was cut at a COMMIT so far; see CRASH_CUT in crash-worker.ts. */
  readonly cuts: readonly CutMessage[];
  /** Releases every held run. */
  go(): void;
  /** Ends the process with SIGKILL and resolves when it is gone. */
  kill(): Promise<void>;
  /** Resolves when the process has ended in any way. */
  readonly ended: Promise<void>;
}

const started = new Set<WorkerProcess>();

/** The environment of a worker on this database and task queue: no logs, and time-outs as short as a busy machine allows. */
export function workerEnv(world: { url: string }, taskQueue: string): Record<string, string> {
  return {
    DATABASE_URL: world.url,
    MASTER_KEYS,
    TEMPORAL_ADDRESS: temporalAddress(),
    TASK_QUEUE: taskQueue,
    WORKER_PORT: '0',
    LOG_LEVEL: 'silent',
    RUN_TIME_LIMIT_SECONDS: '60',
    RUN_STEP_TIMEOUT_SECONDS: '5',
    RUN_MODEL_TIMEOUT_SECONDS: '20',
    RUN_HEARTBEAT_SECONDS: '5',
    DISPATCH_POLL_SECONDS: '0.2',
    // Runs of one company are held at every crash point at the same time.
    DISPATCH_COMPANY_LIMIT: '1000',
    RECONCILE_SECONDS: '1',
  };
}

/** Starts a worker process with exactly this environment. */
export function forkWorker(env: Record<string, string>, options: { main?: string } = {}): WorkerProcess {
  const main = options.main ?? WORKER_MAIN;
  if (!existsSync(main)) throw new Error(`${main} is missing: run npm run build:all`);
  // execArgv is empty, because the worker must not get the flags of the test runner.
  const child = fork(main, [], { env, execArgv: [], stdio: ['ignore', 'inherit', 'inherit', 'ipc'] });
  const stops: ReachedMessage[] = [];
  const cuts: CutMessage[] = [];
  const listeners = new Set<() => void>();
  let isReady = false;
  let gone: string | null = null;
  const notify = (): void => {
    for (const listener of listeners) listener();
  };
  child.on('message', (message) => {
    if (typeof message !== 'object' || message === null || !('type' in message)) return;
    if (message.type === 'ready') isReady = true;
    if (message.type === 'reached') stops.push(message as ReachedMessage);
    if (message.type === 'cut') cuts.push(message as CutMessage);
    notify();
  });
  const ended = new Promise<void>((resolve) => {
    child.once('exit', (code, signal) => {
      gone = String(signal ?? code);
      notify();
      resolve();
    });
  });
  const when = <T>(what: string, probe: () => T | undefined | false): Promise<T> =>
    new Promise((resolve, reject) => {
      const listener = (): void => {
        const found = probe();
        if (found === undefined || found === false) {
          if (gone === null) return;
          reject(new Error(`the worker ended (${gone}) before ${what}`));
        } else {
          resolve(found);
        }
        clearTimeout(timer);
        listeners.delete(listener);
      };
      const timer = setTimeout(() => {
        listeners.delete(listener);
        reject(new Error(`gave up waiting for ${what}`));
      }, READY_MS);
      listeners.add(listener);
      listener();
    });
  const worker: WorkerProcess = {
    child,
    ready: when('it was ready', () => isReady).then(() => undefined),
    reached: (point) => when(`it reached ${point}`, () => stops.find((stop) => stop.point === point)),
    stops,
    cuts,
    go: () => void child.send({ type: 'go' } satisfies GoMessage),
    kill: () => {
      if (gone === null) child.kill('SIGKILL');
      return ended;
    },
    ended,
  };
  started.add(worker);
  void ended.then(() => started.delete(worker));
  // An unawaited rejection must not fail the process: some tests end a worker early on purpose.
  worker.ready.catch(() => undefined);
  return worker;
}

/** Starts a worker that ends or holds runs at these points; see crash-worker.ts. */
export function forkCrashWorker(
  env: Record<string, string>,
  crash: { points: readonly string[]; action: 'kill' | 'stop'; after?: number },
): WorkerProcess {
  return forkWorker(
    {
      ...env,
      CRASH_POINT: crash.points.join(','),
      CRASH_ACTION: crash.action,
      CRASH_AFTER: String(crash.after ?? 0),
    },
    { main: CRASH_WORKER_MAIN },
  );
}

/** Ends every worker process that still runs. */
export async function endWorkers(): Promise<void> {
  await Promise.all([...started].map((worker) => worker.kill()));
}
