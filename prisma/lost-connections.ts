// Recognizes a lost connection to Postgres and removes it from the pool.

import type pg from 'pg';
import { errorCode } from './database-url';

/** Whether a query's error means that its connection is of no further use. */
export function isConnectionLost(error: unknown): boolean {
  // `query_timeout`: past the server's own timeout, silence means that the server is gone.
  if (error instanceof Error && error.message === 'Query read timeout') return true;
  // The session ends: by an operator or a shutdown (57P), or by a timeout of the transaction (25P).
  return /^(08...|57P..|25P03|25P04)$/.test(errorCode(error) ?? '');
}

/**
 * Ends a connection as soon as a query on it fails because it is lost. `pg` only fails the query, and a caller that gives
 * the connection back without an error (Prisma does) would leave it in the pool, to fail one caller after the other.
 */
export function endWhenLost(client: pg.PoolClient): void {
  const query = client.query.bind(client) as (...args: unknown[]) => unknown;
  const watched = (...args: unknown[]): unknown => {
    const answer = query(...args);
    if (answer instanceof Promise) {
      answer.catch((error: unknown) => {
        // With a query unanswered, `end` does not wait for the server: it closes the socket.
        if (isConnectionLost(error)) void (client as pg.PoolClient & pg.Client).end().catch(() => undefined);
      });
    }
    return answer;
  };
  client.query = watched as typeof client.query;
}
