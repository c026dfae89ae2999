// `Idempotency-Key`: the same POST sent twice is carried out once, and answered twice. Which answers are kept, and how a
// key is held, is `stored-answers.ts`'.

import { createHash } from 'node:crypto';
import canonicalize from 'canonicalize';
import type { Request } from 'express';
import { keepAnswer, takeKey, type KeyedRequest } from '../prisma/store/access/stored-answers';
import type { SqlTx } from '../prisma/store/db/transaction';
import { Problem } from './problems';
import type { Answer } from './route';
import { withoutSecrets } from './schemas/secrets';
import type { z } from 'zod';

/** Longer than any UUID, URL or hash that a client would use, and short enough for its index. */
const KEY_LIMIT = 255;

/** How soon a request that is under way will have been answered: most take milliseconds. */
const IN_FLIGHT_RETRY_SECONDS = 1;

/**
 * What a POST's key stands for, or null when it bears none. `body` and `query`: as they were read, before any default was
 * filled in.
 * Answers with 400 when the header is no key.
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
    throw new Problem('invalid_input', `an Idempotency-Key has 1 to ${KEY_LIMIT} characters of ASCII without spaces`, {
      place: { parameter: 'Idempotency-Key' },
    });
  }
  return { holderId, path: req.path, key, bodySha256: hashOf(body, query) };
}

/** What a query says is a part of what is asked: the name of a file, say. */
function hashOf(body: unknown, query: Readonly<Record<string, string>>): Buffer {
  const hash = createHash('sha256').update(`${canonicalize(query)}\n`, 'utf8');
  return hash.update(Buffer.isBuffer(body) ? body : Buffer.from(canonicalize(body) ?? '', 'utf8')).digest();
}

/**
 * Carries a keyed request out, or answers as it was answered before; in the transaction of the write, which keeps the key
 * and the answer with it. `schema`: of the answer, by which its secrets are left out of what is kept.
 */
export async function carryOutOnce(
  tx: SqlTx,
  request: KeyedRequest,
  schema: z.ZodType,
  work: () => Promise<Answer>,
): Promise<Answer> {
  const state = await takeKey(tx, request);
  switch (state.kind) {
    case 'in_flight':
      throw new Problem('request_in_flight', 'a request with this Idempotency-Key is under way', {
        headers: { 'Retry-After': String(IN_FLIGHT_RETRY_SECONDS) },
      });
    case 'other_body':
      throw new Problem('idempotency_key_reused', 'this Idempotency-Key was used for a request with another body');
    case 'answered': {
      const { status, body } = state.answer;
      return { status: status as Answer['status'], body: body ?? undefined, replayed: true };
    }
    case 'unused': {
      const { status, body } = await work();
      await keepAnswer(tx, request, { status, body: withoutSecrets(schema, body), subjectId: subjectOf(body) });
      return { status, body };
    }
  }
}

/** The one thing that an answer is about, which a redaction knows it by. Of a batch's there is none: it holds no content. */
function subjectOf(body: unknown): string | null {
  if (typeof body !== 'object' || body === null || !('id' in body)) return null;
  return typeof body.id === 'string' ? body.id : null;
}
