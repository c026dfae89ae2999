// Authentication: finds the holder of the key. The route checks what the holder may do.

import type { RequestHandler, Response } from 'express';
import { findKeyHolder } from '../../prisma/store/access/keys';
import type { Database } from '../../prisma/store/db/database';
import { inStatement } from '../../prisma/store/db/sql-errors';
import type { Caller } from './caller';
import { Problem } from '../problems';
import { localsOf } from './request-log';

/** Longer than any token that the API issues and than any reasonable operator key. */
const TOKEN_LIMIT = 512;

/**
 * Answers with 401 unless the request has a valid key, with the same detail in each case. Answers with 403 when the
 * company is suspended.
 */
export function authenticate(db: Database): RequestHandler {
  return async (req, res, next) => {
    const token = bearerToken(req.get('authorization'));
    const holder = token === null ? null : await inStatement(findKeyHolder(db, token));
    if (holder === null) {
      throw new Problem('unauthenticated', 'send a valid key as Authorization: Bearer', {
        headers: { 'WWW-Authenticate': 'Bearer' },
      });
    }
    localsOf(res).keyId = holder.keyId;
    if (holder.kind !== 'operator' && holder.companySuspended) {
      throw new Problem('company_suspended', 'the operator has suspended this company');
    }
    localsOf(res).caller = holder;
    next();
  };
}

/** The caller of a request. Call it only after `authenticate`. */
export function callerOf(res: Response): Caller {
  const { caller } = localsOf(res);
  if (caller === undefined) throw new Error('callerOf was called before authenticate');
  return caller;
}

function bearerToken(header: string | undefined): string | null {
  const token = /^Bearer +([\x21-\x7e]+)$/i.exec(header ?? '')?.[1];
  return token === undefined || token.length > TOKEN_LIMIT ? null : token;
}
