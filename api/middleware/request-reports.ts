// Tells how each request ended, to whoever counts: by the route's template, never by the path that was asked for.

import type { RequestHandler } from 'express';

export interface RequestReport {
  readonly method: string;
  /** As in `/v1/rooms/:room/events`; null where no route was met. */
  readonly route: string | null;
  /** Null: the client went away before its answer was whole. */
  readonly status: number | null;
  readonly seconds: number;
}

export type OnRequest = (report: RequestReport) => void;

export function reportRequests(onRequest: OnRequest): RequestHandler {
  return (req, res, next) => {
    const startedAt = performance.now();
    res.once('close', () => {
      const route: unknown = (req.route as { path?: unknown } | undefined)?.path;
      onRequest({
        method: req.method,
        route: typeof route === 'string' ? route : null,
        status: res.writableFinished ? res.statusCode : null,
        seconds: (performance.now() - startedAt) / 1_000,
      });
    });
    next();
  };
}
