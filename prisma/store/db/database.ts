// The database as the store uses it: one PrismaClient and one pool of `pg` connections under it, and the two kinds of
// transaction. `connectDatabase` (client.ts) makes it; statements are in the domain folders beside this one.

import type pg from 'pg';
import type { PrismaClient } from '../../generated/client';
import { Transient } from './errors';
import { Models } from './models';
import { Notifier, ROOMS_CHANNEL } from './notifications';
import { PreparedStatements } from './prepared-statements';
import { PrismaTransaction } from './prisma-transaction';
import { isRolledBack, translateError, Uncommitted } from './sql-errors';
import { runSqlTransaction, sendStatement } from './sql-transaction';
import { checkedLocks, UNCHECKED_LOCKS, type LockRecord } from './lock-order';
import type { Committed, PipelineTx, Reader, Statement, Tx } from './transaction';

/** How often a deadlock or a serialization failure is tried again. Locks have one order, so even one is rare. */
const ROLLED_BACK_TRIES = 5;

/** Pauses before a transaction that did not commit runs again: short, and growing, because each waiter lengthens the queue. */
const RETRY_PAUSE_MS = 25;
const RETRY_PAUSE_MAX_MS = 500;

export interface DatabaseParts {
  readonly prisma: PrismaClient;
  readonly pool: pg.Pool;
  readonly statements: PreparedStatements;
  /** Makes a transaction throw when it takes a lock out of order (lock-order.ts). For tests. */
  readonly checkLockOrder: boolean;
}

export class Database extends Models implements Reader {
  readonly prisma: PrismaClient;
  readonly pool: pg.Pool;
  /** What this was made of: a second `Database` on the same connections is made of the same parts. */
  readonly parts: DatabaseParts;
  readonly notifier: Notifier;
  protected readonly client: PrismaClient;
  private closing: Promise<void> | undefined;

  constructor(parts: DatabaseParts) {
    super();
    this.parts = parts;
    this.prisma = this.client = parts.prisma;
    this.pool = parts.pool;
    this.notifier = new Notifier(
      (payload) => this.$queryRaw`SELECT pg_notify(${ROOMS_CHANNEL}, ${payload})::text AS sent`,
    );
  }

  /**
   * Runs `work` in one transaction of Prisma and returns its result.
   *
   * `work` may run more than once: a deadlock or serialization failure, which Postgres rolled back, is tried again here.
   * @throws Transient when Postgres did not answer (the outcome is then unknown), or the error that `work` threw
   */
  async transaction<T>(work: (tx: Tx) => Promise<T>): Promise<T> {
    return retryRolledBack(() => this.attemptTransaction(work));
  }

  /**
   * As `transaction`, for the hot path: `work` sends the store's own SQL and uses no model.
   *
   * Until `giveUpAt` (epoch ms), whatever kept the transaction from sending its COMMIT is waited out here: no free
   * connection, a lock held too long, a server that is away. None of these has committed. For callers that get one attempt.
   */
  async sqlTransaction<T>(
    work: (tx: PipelineTx) => Promise<T>,
    { giveUpAt = 0 }: { readonly giveUpAt?: number } = {},
  ): Promise<T> {
    for (let attempt = 1; ; attempt += 1) {
      const limitMs = attempt === 1 ? undefined : giveUpAt - Date.now();
      try {
        return await retryRolledBack(() => this.attemptSqlTransaction(work, limitMs));
      } catch (error) {
        const pauseMs = Math.min(RETRY_PAUSE_MAX_MS, RETRY_PAUSE_MS * 2 ** attempt) * (0.5 + Math.random() / 2);
        const outlasts = Date.now() + pauseMs < giveUpAt;
        if (!(error instanceof Transient && error.uncommitted && outlasts)) throw error;
        await new Promise((resolve) => setTimeout(resolve, pauseMs));
      }
    }
  }

  /** Runs one statement outside of a transaction, straight through `pg`, and returns its rows. */
  async $queryRaw<T = unknown>(statement: Statement, ...values: readonly unknown[]): Promise<T> {
    return (await sendStatement(this.pool, this.parts.statements, statement, values)).rows as T;
  }

  /** Runs one statement outside of a transaction, straight through `pg`, and returns how many rows it wrote. */
  async $executeRaw(statement: Statement, ...values: readonly unknown[]): Promise<number> {
    return (await sendStatement(this.pool, this.parts.statements, statement, values)).rowCount ?? 0;
  }

  /** Waits for running statements, then closes every connection. Idempotent. */
  close(): Promise<void> {
    return (this.closing ??= this.closeBoth());
  }

  /** One attempt at a transaction of Prisma. */
  protected async attemptTransaction<T>(work: (tx: Tx) => Promise<T>): Promise<T> {
    let callbacks: PrismaTransaction['callbacks'] = [];
    const result = await this.prisma.$transaction((client) => {
      const tx = new PrismaTransaction(client, this.recordLocks());
      callbacks = tx.callbacks;
      return work(tx);
    });
    this.runAfterCommit(callbacks);
    return result;
  }

  /** One attempt at a transaction of the store's own SQL. @throws Uncommitted */
  protected async attemptSqlTransaction<T>(
    work: (tx: PipelineTx) => Promise<T>,
    limitMs: number | undefined,
  ): Promise<T> {
    const options = { statements: this.parts.statements, locks: this.recordLocks(), limitMs };
    const { result, afterCommit } = await runSqlTransaction(this.pool, options, work);
    this.runAfterCommit(afterCommit);
    return result;
  }

  private runAfterCommit(callbacks: readonly ((committed: Committed) => void)[]): void {
    for (const callback of callbacks) callback(this);
  }

  private recordLocks(): LockRecord {
    return this.parts.checkLockOrder ? checkedLocks() : UNCHECKED_LOCKS;
  }

  private async closeBoth(): Promise<void> {
    try {
      await this.prisma.$disconnect();
    } finally {
      await this.pool.end();
    }
  }
}

async function retryRolledBack<T>(attemptOnce: () => Promise<T>): Promise<T> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await attemptOnce();
    } catch (error) {
      const uncommitted = error instanceof Uncommitted;
      const failure = uncommitted ? error.cause : error;
      if (attempt < ROLLED_BACK_TRIES && isRolledBack(failure)) continue;
      throw translateError(failure, uncommitted);
    }
  }
}
