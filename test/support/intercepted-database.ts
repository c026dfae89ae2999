// A database whose transactions a test or a benchmark can observe, fail or hold.

import { Database } from '../../prisma/store/db/database';
import type { PipelineTx, SqlTx, Tx } from '../../prisma/store/db/transaction';

/** Runs one attempt at a transaction: `run` opens it, runs the given work in it and commits. */
export type AroundTransaction = <X extends SqlTx, T>(
  work: (tx: X) => Promise<T>,
  run: (work: (tx: X) => Promise<T>) => Promise<T>,
) => Promise<T>;

/** Uses the same connections, and passes every attempt at a transaction of either kind through `around`. */
export class InterceptedDatabase extends Database {
  private readonly around: AroundTransaction;

  constructor(db: Database, around: AroundTransaction) {
    super(db.parts);
    this.around = around;
  }

  protected override attemptTransaction<T>(work: (tx: Tx) => Promise<T>): Promise<T> {
    return this.around(work, (own) => super.attemptTransaction(own));
  }

  protected override attemptSqlTransaction<T>(
    work: (tx: PipelineTx) => Promise<T>,
    limitMs: number | undefined,
  ): Promise<T> {
    return this.around(work, (own) => super.attemptSqlTransaction(own, limitMs));
  }
}
