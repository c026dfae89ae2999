// `Idempotency-Key`: a POST that is sent twice runs once and gets the same answer twice. Storage of answers and locking
// of keys: `prisma/store/access/stored-answers.ts`.

import { createHash } from 'node:crypto';
import canonicalize from 'canonicalize';
import type { Request } from 'express';
import { storeAnswer, lockIdempotencyKey, type KeyedRequest } from '../../prisma/store/access/stored-answers';
import type { SqlTx } from '../../prisma/store/db/transaction';
import { Problem } from '../problems';
import type { Answer } from '../route';
import { withoutSecrets } from '../schemas/secrets';
import type { z } from 'zod';

/** Longer than any UUID, URL or hash that a client would use, and short enough for its index. */
const KEY_LIMIT = 255;

/** Retry-After for a request whose twin still runs. Most requests take milliseconds. */
const IN_FLIGHT_RETRY_SECONDS = 1;

/**
 * The key of a POST and the request that it identifies, or null without the header. `body` and `query` are the parsed
 * input before defaults are filled in. Answers with 400 when the header is not a valid key.
 */
export function keyedRequestOf(
  req: Request,
  holderId: string,
  body: unknown,
  query: Readonly<Record<string, string>>,
): KeyedRequest | null {
  const key = req.get('idempotency-key');
  if (key === undefined) return null;
  if (!/^[\x21-\x7e]+$/.test(key) || key.length > KEY_LIMIT) {
    throw new Problem('invalid_input', `an Idempotency-Key has 1 to ${KEY_LIMIT} ASCII characters and no spaces`, {
      location: { parameter: 'Idempotency-Key' },
    });
  }
  return { holderId, path: req.path, key, bodySha256: hashOf(body, query) };
}

/** Includes the query, because it is part of the request; an upload's file name is there. */
function hashOf(body: unknown, query: Readonly<Record<string, string>>): Buffer {
  const hash = createHash('sha256').update(`${canonicalize(query)}\n`, 'utf8');
  return hash.update(Buffer.isBuffer(body) ? body : Buffer.from(canonicalize(body) ?? '', 'utf8')).digest();
}

/**
 * Runs a keyed request, or returns the answer that is stored for its key. Runs in the caller's transaction, so that the
 * write, the key and the answer commit together. `schema` is the answer's; it marks the secrets that are not stored.
 */
export async function withIdempotencyKey(
  tx: SqlTx,
  request: KeyedRequest,
  schema: z.ZodType,
  work: () => Promise<Answer>,
): Promise<Answer> {
  const state = await lockIdempotencyKey(tx, request);
  switch (state.kind) {
    case 'in_flight':
      throw new Problem('request_in_flight', 'a request with this Idempotency-Key is still running', {
        headers: { 'Retry-After': String(IN_FLIGHT_RETRY_SECONDS) },
      });
    case 'other_body':
      throw new Problem('idempotency_key_reused', 'this Idempotency-Key was used for a different request');
    case 'answered': {
      const { status, body } = state.answer;
      return { status: status as Answer['status'], body: body ?? undefined, replayed: true };
    }
    case 'unused': {
      const { status, body } = await work();
      await storeAnswer(tx, request, { status, body: withoutSecrets(schema, body), subjectId: subjectOf(body) });
      return { status, body };
    }
  }
}

/** The id by which a redaction finds a stored answer. Null for a batch, whose answer holds no content. */
function subjectOf(body: unknown): string | null {
  if (typeof body !== 'object' || body === null || !('id' in body)) return null;
  return typeof body.id === 'string' ? body.id : null;
}
