// One worker process of a lane, controlled by its parent: start, arm, wait for its end, kill.

import { fork, type ChildProcess } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { ArmMessage, BeginMessage, DeathLine } from './messages';
import { COMPILED } from '../../test/support/compiled';

/** A start needs two seconds of CPU, and the workers of all ways start at the same time. */
const READY_MS = 90_000;

export interface Victim {
  readonly pid: number;
  /** Resolves when the code is loaded. The worker then waits for `begin`. */
  readonly loaded: Promise<void>;
  /** Resolves when the worker polls. */
  begin(): Promise<void>;
  /** Resolves when the worker has confirmed its kill points. */
  arm(targets: ArmMessage['targets'], graceMs: number): Promise<void>;
  /** Resolves with the signal or exit code when the process has ended; null after `withinMs`. */
  ended(withinMs: number): Promise<string | null>;
  end(): Promise<void>;
}

const LAB_WORKER = join(COMPILED, 'bench', 'crash-lab', 'lab-worker.js');

export function startVictim(env: Record<string, string>): Victim {
  const child = fork(LAB_WORKER, [], { env, execArgv: [], stdio: ['ignore', 'inherit', 'inherit', 'ipc'] });
  const gone = new Promise<string>((resolve) => {
    child.once('exit', (code, signal) => resolve(signal ?? `exit code ${code}`));
  });
  const loaded = waitFor(child, 'loaded');
  // The worker may be ended before it is loaded; then this rejection is not an error.
  loaded.catch(() => undefined);
  let begun: Promise<void> | undefined;
  return {
    pid: child.pid ?? 0,
    loaded,
    begin: () =>
      (begun ??= (async () => {
        await loaded;
        const ready = waitFor(child, 'ready');
        child.send({ type: 'begin' } satisfies BeginMessage);
        await ready;
      })()),
    arm: async (targets, graceMs) => {
      const armed = waitFor(child, 'armed');
      child.send({ type: 'arm', targets, graceMs } satisfies ArmMessage);
      await armed;
    },
    ended: (withinMs) => {
      let timer: NodeJS.Timeout | undefined;
      const late = new Promise<null>((resolve) => {
        timer = setTimeout(() => resolve(null), withinMs);
      });
      return Promise.race([gone, late]).finally(() => clearTimeout(timer));
    },
    end: async () => {
      if (child.exitCode === null && child.signalCode === null) child.kill('SIGKILL');
      await gone;
    },
  };
}

function waitFor(child: ChildProcess, type: string): Promise<void> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(new Error(`a worker was not ${type} after ${READY_MS / 1_000} s`)), READY_MS);
    const forget = (): void => {
      clearTimeout(timer);
      child.off('message', onMessage);
      child.off('exit', onExit);
    };
    const onMessage = (message: unknown): void => {
      if (typeof message !== 'object' || message === null || !('type' in message) || message.type !== type) return;
      forget();
      resolve();
    };
    const onExit = (code: number | null, signal: string | null): void => {
      forget();
      reject(new Error(`a worker ended (${signal ?? code}) before it was ${type}`));
    };
    child.on('message', onMessage);
    child.once('exit', onExit);
  });
}

/** The lines that a worker wrote before it died. */
export function readDeaths(log: string, pid: number): DeathLine[] {
  if (!existsSync(log)) return [];
  return readFileSync(log, 'utf8')
    .split('\n')
    .filter(Boolean)
    .map((line) => JSON.parse(line) as DeathLine)
    .filter((line) => line.pid === pid);
}
