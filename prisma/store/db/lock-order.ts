// The order in which every transaction takes row locks. Two transactions that take them in one order cannot deadlock.

/** Remembers the locks of one transaction. */
export interface LockRecord {
  /** @throws when one of them comes before a lock that the transaction has already, and the check is on */
  take(...locks: readonly string[]): void;
}

/** Records nothing: production. */
export const UNCHECKED_LOCKS: LockRecord = { take: () => undefined };
