// Purges what an API process wrote and nobody may ask for any more: answers kept under old idempotency keys.

import { purgeAnswers } from '../prisma/store/access/stored-answers';
import type { Database } from '../prisma/store/db/database';
import { inStatement } from '../prisma/store/db/sql-errors';

/** Rows of one statement: what it locks and what it takes long are both small. */
const AT_ONCE = 1_000;

/** Answers are kept for weeks: an hour more is nothing. */
const EVERY_MS = 3_600_000;

/** Purges all there is to purge. */
export async function purgeOnce(db: Database): Promise<void> {
  while ((await inStatement(purgeAnswers(db, AT_ONCE))) === AT_ONCE);
}

/** Purges now and every hour, until stopped. Several processes may. */
export function startHousekeeping(db: Database, onError: (error: unknown) => void): { stop(): void } {
  const run = (): void => void purgeOnce(db).catch(onError);
  run();
  const timer = setInterval(run, EVERY_MS);
  timer.unref();
  return { stop: () => clearInterval(timer) };
}
