// Faults injected below the activities: a database that fails at a named activity.

import { activityInfo } from '@temporalio/activity';
import type { Db } from '../../prisma/store/db/transaction';

/** The same database, whose transactions in this activity throw `error` instead of running, as often as `times` says. */
export function failingIn(db: Db, activity: string, error: () => Error, times = Number.POSITIVE_INFINITY): Db {
  let left = times;
  return new Proxy(db, {
    get(target, property) {
      const value: unknown = Reflect.get(target, property, target);
      if (property !== '$transaction' || typeof value !== 'function') return value;
      return (...args: unknown[]): unknown => {
        if (left > 0 && currentActivity() === activity) {
          left -= 1;
          return Promise.reject(error());
        }
        return value.apply(target, args);
      };
    },
  });
}

function currentActivity(): string | null {
  try {
    return activityInfo().activityType;
  } catch {
    return null;
  }
}
