// The one order in which every transaction takes row locks. Transactions that lock in one order cannot deadlock.
//
// A lock is declared where it is taken: `forShare` and `forNoKeyUpdate` write the lock clause of a SELECT, `declareLock`
// precedes an UPDATE that is the first to lock its row. A database that was opened with `checkLockOrder` (the tests)
// throws when a transaction takes a lock out of order; production records nothing.
//
// Not declared: a row that the transaction has locked or inserted before; rows taken with SKIP LOCKED by a statement alone
// in its transaction, which never waits; the FOR KEY SHARE of foreign keys, which FOR NO KEY UPDATE does not block.
// Several rows of one kind are locked in the order of their ids.

import { Prisma } from '../../generated/client';

/** First to last. The rows of a run are in the middle; a room's row is last, so that it is held for one statement. */
export const LOCK_ORDER = [
  /** Advisory, of the dispatchers: they deliver one after the other. */
  'delivery',
  /** `room_members`. Before all other locks of a room, so that leaving, closing and redacting wait for transactions there. */
  'membership',
  'invitation',
  'company',
  'agent',
  /** `room_agents`. After the membership under which an agent is on a roster. */
  'roster',
  /** After membership and roster: a claim checks both before it takes its wake. */
  'wake',
  /** Advisory, one for each company: only dispatchers wait for a budget, with their wakes locked. */
  'budget',
  'run',
  /** Only ever locked together with its run or under its lock. So an UPDATE under the run's lock never waits. */
  'held_action',
  /** A step's effect locks it under the run's lock. */
  'task',
  'model_key',
  'key_test',
  /** `append` numbers events under it. Nothing that takes another lock may come after it. */
  'room',
] as const;
export type LockName = (typeof LOCK_ORDER)[number];

/** The locks that one transaction has taken. */
export interface LockRecord {
  /** @throws LockOrderError when the check is on and one of them comes before a lock that was taken */
  take(...locks: readonly LockName[]): void;
}

export class LockOrderError extends Error {
  override readonly name = 'LockOrderError';
  constructor(lock: LockName, after: LockName) {
    super(`the lock "${lock}" is taken after "${after}"; the order is ${LOCK_ORDER.join(', ')}`);
  }
}

/** A record for one transaction, which checks the order. */
export function checkedLocks(): LockRecord {
  let last: LockName = LOCK_ORDER[0];
  return {
    take(...locks) {
      for (const lock of locks) {
        if (LOCK_ORDER.indexOf(lock) < LOCK_ORDER.indexOf(last)) throw new LockOrderError(lock, last);
        last = lock;
      }
    },
  };
}

/** A record that checks nothing, for all transactions of production. */
export const UNCHECKED_LOCKS: LockRecord = { take: () => undefined };

interface Locking {
  readonly locks: LockRecord;
}

/** The locks of a statement: the one that its only table is, or each with the alias of its table. */
type Locked = LockName | Partial<Readonly<Record<LockName, string>>>;

/** Declares locks that the next statement takes without a lock clause: an UPDATE, or an advisory lock. */
export function declareLock(tx: Locking, ...locks: readonly LockName[]): void {
  tx.locks.take(...locks);
}

/** Declares the locks and writes their clause: `FOR SHARE`, or `FOR SHARE OF m, ra`. */
export function forShare(tx: Locking, locked: Locked): Prisma.Sql {
  return lockClause(tx, 'FOR SHARE', locked);
}

/** As `forShare`, for rows that the transaction changes: `FOR NO KEY UPDATE`. */
export function forNoKeyUpdate(tx: Locking, locked: Locked): Prisma.Sql {
  return lockClause(tx, 'FOR NO KEY UPDATE', locked);
}

function lockClause(tx: Locking, mode: string, locked: Locked): Prisma.Sql {
  if (typeof locked === 'string') {
    tx.locks.take(locked);
    return Prisma.raw(mode);
  }
  tx.locks.take(...(Object.keys(locked) as LockName[]));
  return Prisma.raw(`${mode} OF ${Object.values(locked).join(', ')}`);
}
