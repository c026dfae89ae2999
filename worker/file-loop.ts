// Parses the files that wait for it, one at a time. Several workers may do so at once: a file that another worker holds is
// skipped, and the file of a dead worker is taken again when its lease ends.

import type { Logger } from 'pino';
import { finishFile, isLastAttempt, refuseFile, releaseFile, takeFile } from '../prisma/store/files/parse-queue';
import type { Database } from '../prisma/store/db/database';
import { parseInProcess, type ParserOptions } from './file-parser/parser-process';
import { createLoop, type Loop, type OnPass } from './loop';

export interface FileReaderDeps extends ParserOptions {
  readonly db: Database;
  /** Called for every file that can't be parsed, with its id and the reason; never with its content. */
  readonly onUnreadable: (file: string, code: string) => void;
}

export interface FileLoopDeps {
  readonly db: Database;
  readonly intervalMs: number;
  readonly log: Logger;
  readonly onPass?: OnPass | undefined;
}

/** The loop over waiting files. Its `stop` kills the parser of the current file; the file is parsed again later. */
export function createFileLoop({ db, intervalMs, log, onPass }: FileLoopDeps): Loop {
  const stopping = new AbortController();
  const loop = createLoop({
    intervalMs,
    onError: (error) => log.error({ err: error }, 'file pass failed'),
    onPass,
    runOnce: () =>
      readFileOnce({
        db,
        signal: stopping.signal,
        onUnreadable: (file, code) => log.info({ file, code }, 'file is unreadable'),
      }),
  });
  return {
    start: () => loop.start(),
    trigger: () => loop.trigger(),
    stop: () => {
      stopping.abort();
      return loop.stop();
    },
    get lastSuccessAt() {
      return loop.lastSuccessAt;
    },
  };
}

/** One pass: takes a file, parses it and stores the passages. Returns true if there was a file, so more may wait. */
export async function readFileOnce(deps: FileReaderDeps): Promise<boolean> {
  const file = await takeFile(deps.db);
  if (file === null) return false;
  const outcome = await parseInProcess(file, deps);
  switch (outcome.kind) {
    case 'read':
      await finishFile(deps.db, file, outcome);
      return true;
    case 'unreadable':
      // A time-out may be caused by other load on the machine; every other limit depends on the file alone.
      if (outcome.code === 'too_slow' && !isLastAttempt(file)) {
        await releaseFile(deps.db, file, { interrupted: false });
        return true;
      }
      if (await refuseFile(deps.db, file, outcome.code)) deps.onUnreadable(file.id, outcome.code);
      return true;
    case 'died': {
      // Released: a later attempt parses the file or gives it up.
      const interrupted = deps.signal?.aborted === true;
      await releaseFile(deps.db, file, { interrupted });
      return !interrupted;
    }
  }
}
