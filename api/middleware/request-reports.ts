// Reports the end of each request to a callback, for metrics. The report has the route's template, never the path.

import type { RequestHandler } from 'express';

export interface RequestReport {
  readonly method: string;
  /** The template, such as `/v1/rooms/:room/events`; null when no route matched. */
  readonly route: string | null;
  /** Null: the client disconnected before the answer was complete. */
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
