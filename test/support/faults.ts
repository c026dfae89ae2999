// Faults injected below the activities: a database that fails at a named activity.

import { activityInfo } from '@temporalio/activity';
import type { Db } from '../../prisma/store/db/transaction';

/**
 * The same database, whose transactions in this activity throw `error` instead of running, at most `times` times. A function
 * names the activity of the moment, or none.
 */
export function failingIn(
  db: Db,
  activity: string | (() => string | undefined),
  error: () => Error,
  times = Number.POSITIVE_INFINITY,
): Db {
  let left = times;
  return new Proxy(db, {
    get(target, property) {
      const value: unknown = Reflect.get(target, property, target);
      if (property !== '$transaction' || typeof value !== 'function') return value;
      return (...args: unknown[]): unknown => {
        if (left > 0 && isActivity(activity)) {
          left -= 1;
          return Promise.reject(error());
        }
        return value.apply(target, args);
      };
    },
  });
}

function isActivity(activity: string | (() => string | undefined)): boolean {
  try {
    return activityInfo().activityType === (typeof activity === 'string' ? activity : activity());
  } catch {
    // Outside of an activity.
    return false;
  }
}
