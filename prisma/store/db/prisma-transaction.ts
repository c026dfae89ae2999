// A transaction of Prisma, with what the store adds to it: what runs after COMMIT, and the record of its locks.

import type { Prisma } from '../../generated/client';
import type { LockRecord } from './lock-order';
import { Models } from './models';
import type { Committed, Statement, Tx } from './transaction';

export class PrismaTransaction extends Models implements Tx {
  readonly locks: LockRecord;
  readonly callbacks: ((committed: Committed) => void)[] = [];
  protected readonly client: Prisma.TransactionClient;

  constructor(client: Prisma.TransactionClient, locks: LockRecord) {
    super();
    this.client = client;
    this.locks = locks;
  }

  async $queryRaw<T = unknown>(statement: Statement, ...values: readonly unknown[]): Promise<T> {
    return this.client.$queryRaw<T>(statement, ...values);
  }

  async $executeRaw(statement: Statement, ...values: readonly unknown[]): Promise<number> {
    return this.client.$executeRaw(statement, ...values);
  }

  afterCommit(callback: (committed: Committed) => void): void {
    this.callbacks.push(callback);
  }
}
