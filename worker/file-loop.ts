// Reads the files that wait for it, one at a time. Any number of workers may do so at once: what another holds is passed
// over, and what a dead one held is taken up again when its lease is over.

import { finishFile, isLastAttempt, refuseFile, releaseFile, takeFile } from '../prisma/store/files/parse-queue';
import type { Database } from '../prisma/store/db/database';
import { parseInProcess, type ParserOptions } from './file-parser/parser-process';

export interface FileLoopDeps extends ParserOptions {
  readonly db: Database;
  /** Told of every file that could not be read: its id and why, nothing of what it says. */
  readonly onUnreadable: (file: string, code: string) => void;
}

/** One pass: takes a file, has it read, writes what was read. True when there was one, so that there may be more. */
export async function readFileOnce(deps: FileLoopDeps): Promise<boolean> {
  const file = await takeFile(deps.db);
  if (file === null) return false;
  const outcome = await parseInProcess(file, deps);
  switch (outcome.kind) {
    case 'read':
      await finishFile(deps.db, file, outcome);
      return true;
    case 'unreadable':
      // Time is also a matter of what else the machine does; the other limits are the file's alone.
      if (outcome.code === 'too_slow' && !isLastAttempt(file)) {
        await releaseFile(deps.db, file, { interrupted: false });
        return true;
      }
      if (await refuseFile(deps.db, file, outcome.code)) deps.onUnreadable(file.id, outcome.code);
      return true;
    case 'died': {
      // Given back: another attempt reads it after all, or gives it up.
      const interrupted = deps.signal?.aborted === true;
      await releaseFile(deps.db, file, { interrupted });
      return !interrupted;
    }
  }
}
