// Deletes stored answers of idempotency keys that are too old to be returned. Several processes may run it at once.

import type { Logger } from 'pino';
import { purgeAnswers } from '../prisma/store/access/stored-answers';
import type { Database } from '../prisma/store/db/database';
import { inStatement } from '../prisma/store/db/sql-errors';
import { createLoop, type Loop, type OnPass } from './loop';

/** Rows per statement: few enough that each statement is short and locks little. */
const BATCH = 1_000;

/** Answers are kept for 30 days; up to an hour longer does no harm. */
const INTERVAL_MS = 3_600_000;

/** One pass: deletes every answer that is too old, and returns how many. */
export async function deleteOldAnswers(db: Database): Promise<number> {
  let total = 0;
  for (;;) {
    const deleted = await inStatement(purgeAnswers(db, BATCH));
    total += deleted;
    if (deleted < BATCH) return total;
  }
}

export function createStoredAnswerLoop(deps: { db: Database; log: Logger; onPass?: OnPass | undefined }): Loop {
  return createLoop({
    runOnce: () => deleteOldAnswers(deps.db),
    intervalMs: INTERVAL_MS,
    onError: (error) => deps.log.warn({ err: error }, 'old stored answers were not deleted'),
    onPass: deps.onPass,
  });
}
