// Injects faults below the activities: a database that fails in a named activity.

import { activityInfo } from '@temporalio/activity';
import { InterceptedDatabase } from './intercepted-database';
import type { Database } from '../../prisma/store/db/database';

/**
 * The same database, but its transactions in this activity throw `error` instead of running, at most `times` times. If
 * `activity` is a function, it returns the activity that fails now, or undefined.
 */
export function failingIn(
  db: Database,
  activity: string | (() => string | undefined),
  error: () => Error,
  times = Number.POSITIVE_INFINITY,
): Database {
  let left = times;
  return new InterceptedDatabase(db, async (work, run) => {
    if (left > 0 && isActivity(activity)) {
      left -= 1;
      throw error();
    }
    return run(work);
  });
}

function isActivity(activity: string | (() => string | undefined)): boolean {
  try {
    return activityInfo().activityType === (typeof activity === 'string' ? activity : activity());
  } catch {
    // Outside of an activity, activityInfo throws.
    return false;
  }
}
