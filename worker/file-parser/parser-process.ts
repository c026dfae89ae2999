// One file read by a process of its own, which knows no secrets, has its time and its memory, and is killed past either.

import { fork } from 'node:child_process';
import { join } from 'node:path';
import { PARSE_LIMITS, type ParseLimits, type ParseOutcome, type ParseRequest } from './limits';

const PARSER_MAIN = join(__dirname, 'main.js');

export interface ParserOptions {
  readonly limits?: ParseLimits;
  /** The program to run. Only tests, which run uncompiled, name another. */
  readonly main?: string;
  /** Aborted: the process is killed, and the outcome is `died`. */
  readonly signal?: AbortSignal;
}

/** Reads a file. Resolves whatever the process does; past its time it is killed and the file is `too_slow`. */
export function parseInProcess(
  file: Pick<ParseRequest, 'mediaType' | 'bytes'>,
  { limits = PARSE_LIMITS, main = PARSER_MAIN, signal }: ParserOptions = {},
): Promise<ParseOutcome> {
  return new Promise((resolve) => {
    const child = fork(main, [], {
      // No variable of ours: a parser has no use for a database's address or a key.
      env: {},
      // None of ours either: not an inspector's port, not a loader.
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
      const said = message as ParseOutcome | { kind: 'ready' };
      if (said.kind !== 'ready') {
        outcome = said;
        // It has said all that it has to say.
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
