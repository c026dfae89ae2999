// One id and one log line per request: method, route, status and duration. Never headers, bodies, tokens or path
// values.

import { randomUUID } from 'node:crypto';
import type { RequestHandler, Response } from 'express';
import type { Logger } from 'pino';
import type { Caller } from './caller';

/** Values of a request that every later middleware can read. */
export interface RequestLocals {
  requestId: string;
  keyId?: string;
  /** Set by `authenticate`. */
  caller?: Caller;
}

export function localsOf(res: Response): RequestLocals {
  return res.locals as RequestLocals;
}

/** Gives each request an id and logs its end. A client's `X-Request-Id` is used if it is safe to repeat. */
export function logRequests(log: Logger): RequestHandler {
  return (req, res, next) => {
    const given = req.get('x-request-id');
    const requestId = given !== undefined && /^[A-Za-z0-9_-]{1,64}$/.test(given) ? given : randomUUID();
    localsOf(res).requestId = requestId;
    res.set({ 'X-Request-Id': requestId, 'Cache-Control': 'no-store' });
    const startedAt = performance.now();
    res.once('close', () => {
      const route: unknown = (req.route as { path?: unknown } | undefined)?.path;
      log.info(
        {
          method: req.method,
          route: typeof route === 'string' ? route : null,
          // Null: the client disconnected before the answer was complete.
          status: res.writableFinished ? res.statusCode : null,
          ms: Math.round(performance.now() - startedAt),
          key: localsOf(res).keyId ?? null,
          request: requestId,
        },
        'request',
      );
    });
    next();
  };
}
