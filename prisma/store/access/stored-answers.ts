// Idempotency keys: the stored answer to a write, for a repeated request. The key, the write and the answer commit in
// the same transaction.

import { createHash } from 'node:crypto';
import type { Database } from '../db/database';
import type { SqlTx } from '../db/transaction';

/** A POST with an Idempotency-Key. The same key of another holder or path is a different key. */
export interface KeyedRequest {
  /** The API key that sent it. */
  readonly holderId: string;
  readonly path: string;
  readonly key: string;
  /** The hash of the body in canonical form. */
  readonly bodySha256: Buffer;
}

export interface StoredAnswer {
  readonly status: number;
  readonly body: unknown;
}

export type KeyState =
  | { readonly kind: 'unused' }
  /** Another request holds the key right now. */
  | { readonly kind: 'in_flight' }
  /** The key was used for a request with another body. */
  | { readonly kind: 'other_body' }
  | { readonly kind: 'answered'; readonly answer: StoredAnswer };

/** How long an answer is stored: longer than any client retries. */
const RETENTION_DAYS = 30;

/**
 * Locks a key until the transaction ends, and returns its state. Does not wait.
 *
 * Must be the first statement of its transaction: the caller writes after it, if the key is `unused`.
 */
export async function lockIdempotencyKey(tx: SqlTx, request: KeyedRequest): Promise<KeyState> {
  const [lock] = await tx.$queryRaw<{ taken: boolean }[]>`
    SELECT pg_try_advisory_xact_lock(${lockOf(request)}::bigint) AS taken`;
  if (lock?.taken !== true) return { kind: 'in_flight' };
  // A separate statement: the statement of the lock may have started before the last holder committed.
  const [stored] = await tx.$queryRaw<(StoredAnswer & { bodySha256: Uint8Array })[]>`
    SELECT status, body, body_sha256 AS "bodySha256" FROM stored_answers
    WHERE holder_id = ${request.holderId} AND path = ${request.path} AND key = ${request.key}
      AND created_at > clock_ms() - make_interval(days => ${RETENTION_DAYS})`;
  if (!stored) return { kind: 'unused' };
  if (!request.bodySha256.equals(stored.bodySha256)) return { kind: 'other_body' };
  return { kind: 'answered', answer: { status: stored.status, body: stored.body } };
}

/** Stores the answer to a request whose key this transaction locked. A redaction of `subjectId` erases the answer. */
export async function storeAnswer(
  tx: SqlTx,
  { holderId, path, key, bodySha256 }: KeyedRequest,
  answer: StoredAnswer & { readonly subjectId: string | null },
): Promise<void> {
  const body = answer.body === undefined ? null : JSON.stringify(answer.body);
  // Conflicts only with an answer that is older than the limit.
  await tx.$executeRaw`
    INSERT INTO stored_answers (holder_id, path, key, body_sha256, status, body, subject_id)
    VALUES (${holderId}, ${path}, ${key}, ${bodySha256}, ${answer.status}, ${body}::json, ${answer.subjectId})
    ON CONFLICT (holder_id, path, key) DO UPDATE
      SET body_sha256 = excluded.body_sha256, status = excluded.status, body = excluded.body,
          subject_id = excluded.subject_id, created_at = clock_ms()`;
}

/** Deletes up to `limit` answers that are older than the limit, and returns their number. */
export async function purgeAnswers(db: Database, limit: number): Promise<number> {
  return db.$executeRaw`
    DELETE FROM stored_answers WHERE ctid = ANY (ARRAY(
      SELECT ctid FROM stored_answers
      WHERE created_at <= clock_ms() - make_interval(days => ${RETENTION_DAYS})
      ORDER BY created_at LIMIT ${limit} FOR UPDATE SKIP LOCKED))`;
}

function lockOf({ holderId, path, key }: KeyedRequest): bigint {
  return createHash('sha256')
    .update(JSON.stringify([holderId, path, key]))
    .digest()
    .readBigInt64BE();
}
