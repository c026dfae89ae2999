// One worker process of a lane, as its parent holds it: armed, waited for until it is dead, or ended by its pid.

import { fork, type ChildProcess } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { ArmMessage, BeginMessage, DeathLine } from './messages';
import { COMPILED } from '../../test/support/compiled';

/** Starting costs two seconds of CPU, and one of every way starts at once. */
const READY_MS = 90_000;

export interface Victim {
  readonly pid: number;
  /** Resolves when its code is loaded; it does nothing before it is told to begin. */
  readonly loaded: Promise<void>;
  /** Resolves when the worker polls. */
  begin(): Promise<void>;
  /** Resolves when the worker has been told who is to stand where. */
  arm(targets: ArmMessage['targets'], graceMs: number): Promise<void>;
  /** Resolves with what killed it when it is gone; null after `withinMs`. */
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
  // Whoever does not wait for it is not told: it may be ended before.
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
    const timer = setTimeout(() => reject(new Error(`a worker was not ${type} in ${READY_MS / 1_000} s`)), READY_MS);
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

/** What a worker wrote before it died. */
export function readDeaths(log: string, pid: number): DeathLine[] {
  if (!existsSync(log)) return [];
  return readFileSync(log, 'utf8')
    .split('\n')
    .filter(Boolean)
    .map((line) => JSON.parse(line) as DeathLine)
    .filter((line) => line.pid === pid);
}
