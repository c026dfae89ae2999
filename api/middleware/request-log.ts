// One id and one log line a request: what was asked and how it ended, never headers, bodies, tokens or what a path held.

import { randomUUID } from 'node:crypto';
import type { RequestHandler, Response } from 'express';
import type { Logger } from 'pino';

/** What a request is known by from its first middleware on. */
export interface RequestLocals {
  requestId: string;
  keyId?: string;
}

export function localsOf(res: Response): RequestLocals {
  return res.locals as RequestLocals;
}

/** Gives each request an id, its client's own if it has one that is safe to repeat, and logs its end. */
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
          // Closed before it was finished: the client went away.
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
