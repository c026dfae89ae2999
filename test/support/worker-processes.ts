// Worker processes of their own for tests: the compiled worker, or one that behaves like it. Each is ended by its pid.

import { fork, type ChildProcess } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import type { CrashPoint, CutMessage, GoMessage, ReachedMessage } from './crash-points';
import { COMPILED } from './compiled';
import { temporalAddress } from './run-waits';
import { MASTER_KEYS } from './world';

export const WORKER_MAIN = join(COMPILED, 'worker', 'main.js');
export const CRASH_WORKER_MAIN = join(COMPILED, 'test', 'support', 'crash-worker.js');

/** Starting costs two seconds of CPU, and several start at once on a busy machine. */
const READY_MS = 60_000;

export interface WorkerProcess {
  readonly child: ChildProcess;
  /** Resolves when the worker polls; rejects when it ended first. */
  readonly ready: Promise<void>;
  /** Resolves when a run stands at this point, be it now or earlier. Rejects when the process ends first. */
  reached(point: CrashPoint): Promise<ReachedMessage>;
  /** Every run that has reached its point so far. */
  readonly stops: readonly ReachedMessage[];
  /** Every connection that was cut at a COMMIT so far; see crash-worker's CRASH_CUT. */
  readonly cuts: readonly CutMessage[];
  /** Lets what stands go on. */
  go(): void;
  /** Ends the process without warning and resolves when it is gone. */
  kill(): Promise<void>;
  /** Resolves when the process is gone, however it ended. */
  readonly ended: Promise<void>;
}

const started = new Set<WorkerProcess>();

/** The environment of a worker on this database and task queue: silent, with time-outs as short as a busy machine allows. */
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
    // Runs of one company stand at every crash point at once.
    DISPATCH_COMPANY_LIMIT: '1000',
    RECONCILE_SECONDS: '1',
  };
}

/** Starts a worker process with exactly this environment. */
export function forkWorker(env: Record<string, string>, options: { main?: string } = {}): WorkerProcess {
  const main = options.main ?? WORKER_MAIN;
  if (!existsSync(main)) throw new Error(`${main} is missing: run npm run build`);
  // A test runner's own flags are none of a worker's.
  const child = fork(main, [], { env, execArgv: [], stdio: ['ignore', 'inherit', 'inherit', 'ipc'] });
  const stops: ReachedMessage[] = [];
  const cuts: CutMessage[] = [];
  const listeners = new Set<() => void>();
  let isReady = false;
  let gone: string | null = null;
  const tell = (): void => {
    for (const listener of listeners) listener();
  };
  child.on('message', (message) => {
    if (typeof message !== 'object' || message === null || !('type' in message)) return;
    if (message.type === 'ready') isReady = true;
    if (message.type === 'reached') stops.push(message as ReachedMessage);
    if (message.type === 'cut') cuts.push(message as CutMessage);
    tell();
  });
  const ended = new Promise<void>((resolve) => {
    child.once('exit', (code, signal) => {
      gone = String(signal ?? code);
      tell();
      resolve();
    });
  });
  const when = <T>(what: string, look: () => T | undefined | false): Promise<T> =>
    new Promise((resolve, reject) => {
      const listener = (): void => {
        const found = look();
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
  // Whoever does not wait for it is not told: a worker may be meant to die early.
  worker.ready.catch(() => undefined);
  return worker;
}

/** Starts a worker that dies or stands still at these points; see crash-worker. */
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

/** Ends every process that was started here and is still there. */
export async function endWorkers(): Promise<void> {
  await Promise.all([...started].map((worker) => worker.kill()));
}
