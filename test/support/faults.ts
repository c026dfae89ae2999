// Faults injected below the activities: a database that fails at a named activity.

import { activityInfo } from '@temporalio/activity';
import { InterceptedDatabase } from './intercepted-database';
import type { Database } from '../../prisma/store/db/database';

/** The same database, whose transactions in this activity throw `error` instead of running, as often as `times` says. */
export function failingIn(
  db: Database,
  activity: string,
  error: () => Error,
  times = Number.POSITIVE_INFINITY,
): Database {
  let left = times;
  return new InterceptedDatabase(db, async (work, run) => {
    if (left > 0 && currentActivity() === activity) {
      left -= 1;
      throw error();
    }
    return run(work);
  });
}

function currentActivity(): string | null {
  try {
    return activityInfo().activityType;
  } catch {
    return null;
  }
}
