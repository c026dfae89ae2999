// The processes of the bench. Each is forked and sends `ready`, as in production.

import { fork } from 'node:child_process';
import { endProcess } from '../worker/local/stack';

/** Starting a process takes seconds on a busy machine. */
const READY_MS = 60_000;

export interface Ready {
  readonly type: 'ready';
  readonly port: number;
  readonly operatorKey?: string | null;
}

export interface BenchProcess {
  readonly name: string;
  readonly pid: number;
  readonly ready: Ready;
  stop(): Promise<void>;
}

/** Starts a Node program and resolves when it sends `ready`. `onExit` is called if the program ends unexpectedly. */
export async function startProcess(
  name: string,
  main: string,
  env: Record<string, string>,
  onExit: (reason: string) => void,
): Promise<BenchProcess> {
  const child = fork(main, [], { env, stdio: ['ignore', 'inherit', 'inherit', 'ipc'] });
  let stopping: Promise<void> | undefined;
  const stop = (): Promise<void> => (stopping ??= endProcess(child));
  try {
    const ready = await new Promise<Ready>((resolve, reject) => {
      const timer = setTimeout(() => reject(new Error(`${name} did not become ready`)), READY_MS);
      child.once('exit', (code, signal) => {
        clearTimeout(timer);
        reject(new Error(`${name} ended before it was ready (${signal ?? code})`));
      });
      child.on('message', (message) => {
        if (!isReady(message)) return;
        clearTimeout(timer);
        resolve(message);
      });
    });
    child.once('exit', (code, signal) => {
      if (stopping === undefined) onExit(`${name} ended unexpectedly (${signal ?? code})`);
    });
    return { name, pid: child.pid ?? 0, ready, stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

function isReady(message: unknown): message is Ready {
  return typeof message === 'object' && message !== null && 'type' in message && message.type === 'ready';
}
