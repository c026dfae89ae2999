// Whose key it is. What that key may do is asked at each route.

import type { RequestHandler, Response } from 'express';
import { findKeyHolder } from '../../prisma/store/access/keys';
import type { Database } from '../../prisma/store/db/database';
import { inStatement } from '../../prisma/store/db/sql-errors';
import type { Caller } from '../callers';
import { Problem } from '../problems';
import { localsOf } from './request-log';

/** Longer than any token of ours and any operator key worth having. */
const TOKEN_LIMIT = 512;

/** Answers with 401, always the same, unless the request bears a live key; with 403 when its company is suspended. */
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
    setCaller(res, holder);
    next();
  };
}

const callers = new WeakMap<Response, Caller>();

function setCaller(res: Response, caller: Caller): void {
  callers.set(res, caller);
}

/** Who calls. Only after `authenticate`. */
export function callerOf(res: Response): Caller {
  const caller = callers.get(res);
  if (caller === undefined) throw new Error('a route asks who calls before that is known');
  return caller;
}

function bearerToken(header: string | undefined): string | null {
  const token = /^Bearer +([\x21-\x7e]+)$/i.exec(header ?? '')?.[1];
  return token === undefined || token.length > TOKEN_LIMIT ? null : token;
}
