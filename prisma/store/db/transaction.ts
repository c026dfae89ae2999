// What the store's functions take: a reader, a transaction of Prisma, or a transaction of the store's own SQL.
// `Database` opens them (database.ts).

import type { Prisma } from '../../generated/client';
import type { LockRecord } from './lock-order';
import type { ModelName } from './models';

/** A statement: a tagged template, or the fragment that `Prisma.sql` makes of one. */
export type Statement = TemplateStringsArray | Prisma.Sql;

/** Runs one statement of the store's own SQL and returns its rows. */
export interface SqlReader {
  $queryRaw<T = unknown>(statement: Statement, ...values: readonly unknown[]): Promise<T>;
}

/** Where a read runs: in the caller's transaction, or on the database itself. */
export interface Reader extends SqlReader, Pick<Prisma.TransactionClient, ModelName> {}

/** What an `afterCommit` callback may use. */
export interface Committed {
  /** Gathers ids of rooms and companies to notify (notifications.ts). */
  readonly notifier: { add(roomOrCompanyId: string): void };
}

/** A transaction that takes the store's own SQL. Both kinds of transaction are one of these. */
export interface SqlTx extends SqlReader {
  /** Runs one statement and returns how many rows it wrote. */
  $executeRaw(statement: Statement, ...values: readonly unknown[]): Promise<number>;
  /** Registers what runs once, after COMMIT. A transaction that rolls back drops it. It must not throw. */
  afterCommit(callback: (committed: Committed) => void): void;
  /** The row locks that this transaction has taken. */
  readonly locks: LockRecord;
}

/** A transaction of Prisma: models, and the store's own SQL through Prisma. */
export interface Tx extends SqlTx, Reader {}

/** A transaction of the store's own SQL, straight through `pg`. */
export interface PipelineTx extends SqlTx {
  /**
   * Sends a statement without waiting for its answer: the next statement, or COMMIT, travels right behind it, and its
   * failure fails the transaction. Its rows may be awaited after the transaction; they are then committed.
   */
  $pipeline<T>(statement: Statement, ...values: readonly unknown[]): Pipelined<T>;
}
export interface Pipelined<T> {
  readonly rows: Promise<T[]>;
}

/** Sends a statement whose answer is not read: pipelined, in a transaction that can. */
export function write(tx: SqlTx | PipelineTx) {
  return async (statement: TemplateStringsArray, ...values: readonly unknown[]): Promise<void> => {
    if ('$pipeline' in tx) tx.$pipeline(statement, ...values);
    else await tx.$executeRaw(statement, ...values);
  };
}
