// Runs a program to its end and collects its output, with a time limit for the first output and for the whole run.
import { spawn } from 'node:child_process';

import { systemErrorCode } from './start-error';

export interface ProgramLimits {
  /** Time until `isFirstByte` accepts the output; after it the program is killed. */
  readonly firstByteWithinMs?: number | undefined;
  readonly isFirstByte?: ((output: string) => boolean) | undefined;
  readonly endWithinMs: number;
  readonly signal?: AbortSignal | undefined;
}

/** Resolves with stdout and stderr together if the program exits with 0; rejects with the reason otherwise. */
export type RunProgram = (command: string, args: readonly string[], limits: ProgramLimits) => Promise<string>;

export const runProgram: RunProgram = async (command, args, limits) => {
  return await new Promise((resolve, reject) => {
    let output = '';
    let firstByteSeen = limits.firstByteWithinMs === undefined;
    let killedFor: string | null = null;
    const child = spawn(command, args, { stdio: ['ignore', 'pipe', 'pipe'] });
    const kill = (reason: string): void => {
      killedFor = reason;
      child.kill('SIGKILL');
    };
    const seconds = (ms: number): string => `${Math.round(ms / 1000)} s`;
    const abort = (): void => kill('given up');
    limits.signal?.addEventListener('abort', abort);
    if (limits.signal?.aborted === true) abort();
    const endTimer = setTimeout(() => kill(`not done within ${seconds(limits.endWithinMs)}`), limits.endWithinMs);
    const firstByteTimer = setTimeout(() => {
      if (!firstByteSeen) kill(`nothing came within ${seconds(limits.firstByteWithinMs ?? 0)}`);
    }, limits.firstByteWithinMs ?? limits.endWithinMs);
    const finish = (): void => {
      clearTimeout(endTimer);
      clearTimeout(firstByteTimer);
      limits.signal?.removeEventListener('abort', abort);
    };
    const collect = (chunk: Buffer): void => {
      output += chunk.toString('utf8');
      firstByteSeen ||= limits.isFirstByte?.(output) ?? true;
    };
    child.stdout.on('data', collect);
    child.stderr.on('data', collect);
    child.once('error', (error) => {
      finish();
      reject(systemErrorCode(error) === 'ENOENT' ? new Error('no such program') : error);
    });
    child.once('close', (code, signal) => {
      finish();
      if (killedFor !== null) reject(new Error(killedFor));
      else if (code === 0) resolve(output);
      else reject(new Error(`${signal ?? `exit code ${code}`}: ${lastLine(output)}`));
    });
  });
};

function lastLine(output: string): string {
  return output.trim().split('\n').at(-1)?.trim() || 'it wrote nothing';
}
