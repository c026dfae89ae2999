// Starts a compiled program of the project as a process and keeps its whole output.

import { fork, type ChildProcess } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { COMPILED } from './compiled';

export interface LoggedProcess {
  /** Resolves with the message that the process sends when it is ready; rejects if the process ends first. */
  readonly ready: Promise<{ readonly port: number }>;
  /** Its exit code, or the signal that ended it. */
  readonly ended: Promise<number | string>;
  /** The output so far, of stdout and stderr. */
  written(): string;
  stop(signal?: 'SIGTERM' | 'SIGKILL'): Promise<number | string>;
}

const started = new Set<ChildProcess>();

/** Starts a program of `build/` with exactly this environment. */
export function startLogged(
  program: string,
  env: Readonly<Record<string, string>>,
  args: readonly string[] = [],
): LoggedProcess {
  const main = join(COMPILED, program);
  if (!existsSync(main)) throw new Error(`${main} is missing: run npm run build:all`);
  const child = fork(main, args, { env: { ...env }, execArgv: [], stdio: ['ignore', 'pipe', 'pipe', 'ipc'] });
  started.add(child);
  let written = '';
  for (const output of [child.stdout, child.stderr]) {
    output?.on('data', (chunk: Buffer) => {
      written += chunk.toString();
    });
  }
  const ended = new Promise<number | string>((resolve) => {
    child.once('close', (code, signal) => {
      started.delete(child);
      resolve(signal ?? code ?? 0);
    });
  });
  const ready = new Promise<{ port: number }>((resolve, reject) => {
    child.on('message', (message) => {
      if (typeof message === 'object' && message !== null && 'port' in message) resolve(message as { port: number });
    });
    void ended.then((how) => reject(new Error(`${program} ended (${how}) before it was ready:\n${written}`)));
  });
  ready.catch(() => undefined);
  return {
    ready,
    ended,
    written: () => written,
    stop: (signal = 'SIGTERM') => {
      child.kill(signal);
      return ended;
    },
  };
}

/** Ends every process that `startLogged` started and that still runs. */
export async function endLogged(): Promise<void> {
  await Promise.all(
    [...started].map(
      (child) =>
        new Promise((resolve) => {
          child.once('close', resolve);
          child.kill('SIGKILL');
        }),
    ),
  );
}
