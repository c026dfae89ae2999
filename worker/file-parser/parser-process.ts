// Parses one file in a separate process, which has no secrets and is killed when it exceeds its time or memory limit.

import { fork } from 'node:child_process';
import { join } from 'node:path';
import { PARSE_LIMITS, type ParseLimits, type ParseOutcome, type ParseRequest } from './limits';

const PARSER_MAIN = join(__dirname, 'main.js');

export interface ParserOptions {
  readonly limits?: ParseLimits;
  /** The program to run. Only tests, which run uncompiled, set it. */
  readonly main?: string;
  /** An abort kills the process, and the outcome is `died`. */
  readonly signal?: AbortSignal;
}

/** Parses a file. Always resolves: a process that exceeds its time is killed, and the outcome is `too_slow`. */
export function parseInProcess(
  file: Pick<ParseRequest, 'mediaType' | 'bytes'>,
  { limits = PARSE_LIMITS, main = PARSER_MAIN, signal }: ParserOptions = {},
): Promise<ParseOutcome> {
  return new Promise((resolve) => {
    const child = fork(main, [], {
      // No variables: a parser needs no database URL and no key.
      env: {},
      // No options of this process, such as an inspector port or a loader.
      execArgv: [],
      serialization: 'advanced',
      stdio: ['ignore', 'ignore', 'ignore', 'ipc'],
    });
    let outcome: ParseOutcome = { kind: 'died' };
    const kill = (): void => void child.kill('SIGKILL');
    const timer = setTimeout(() => {
      outcome = { kind: 'unreadable', code: 'too_slow' };
      kill();
    }, limits.timeMs);
    signal?.addEventListener('abort', kill, { once: true });
    child.on('message', (message) => {
      const received = message as ParseOutcome | { kind: 'ready' };
      if (received.kind !== 'ready') {
        outcome = received;
        // Nothing comes after the outcome.
        kill();
        return;
      }
      const request: ParseRequest = { ...file, limits };
      child.send(request, (error) => (error === null ? undefined : kill()));
    });
    const settle = (): void => {
      clearTimeout(timer);
      signal?.removeEventListener('abort', kill);
      resolve(outcome);
    };
    child.once('error', settle);
    child.once('exit', settle);
    if (signal?.aborted) kill();
  });
}
