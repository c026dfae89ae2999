// The only error handler: it answers every thrown error with a problem. An unexpected error is logged, and its detail
// is not shown.

import type { ErrorRequestHandler, RequestHandler } from 'express';
import type { Logger } from 'pino';
import { constraintOf, sqlStateOf } from '../../prisma/store/db/sql-errors';
import { Problem, problemOf } from '../problems';
import { localsOf } from './request-log';

/** Answers with 404. Mount it after every route. */
export const answerUnknownRoute: RequestHandler = () => {
  throw new Problem('not_found', 'no such route');
};

export function answerProblems(log: Logger): ErrorRequestHandler {
  return (error: unknown, _req, res, next) => {
    const { requestId } = localsOf(res);
    const known = problemOf(error) ?? problemOfUnreadable(error);
    if (known === null) log.error({ err: loggable(error), request: requestId }, 'request failed');
    // A part of the answer is already sent, so Express closes the connection.
    if (res.headersSent) return next(error);
    const problem = known ?? new Problem('internal', 'the request failed; the log has its request_id');
    res.status(problem.status).set(problem.headers).type('application/problem+json');
    res.send(JSON.stringify(problem.toBody(requestId)));
  };
}

/**
 * The parts of an error that may be logged. Messages of Prisma and Postgres repeat arguments and rows, so they are left
 * out.
 */
export function loggable(error: unknown): Record<string, unknown> {
  if (!(error instanceof Error)) return { type: typeof error };
  const state = sqlStateOf(error);
  const hasContent = state !== undefined || error.name.startsWith('Prisma');
  return {
    type: error.name,
    ...(!hasContent && { message: error.message }),
    ...(hasContent && { state, constraint: constraintOf(error) }),
    stack: error.stack
      ?.split('\n')
      .filter((line) => /^\s+at /.test(line))
      .join('\n'),
  };
}

/** The problem for a request that Express or its body reader cannot read, or null. Their messages are not shown. */
export function problemOfUnreadable(error: unknown): Problem | null {
  if (!(error instanceof Error)) return null;
  const { type, status, limit } = error as Error & { type?: unknown; status?: unknown; limit?: unknown };
  switch (type) {
    case 'entity.too.large':
      return new Problem('body_too_large', `the body may have at most ${Number(limit)} bytes`);
    case 'encoding.unsupported':
    case 'charset.unsupported':
      return new Problem('unsupported_media_type', 'send the body in UTF-8, uncompressed or as gzip, deflate or br');
    default:
      // A wrong Content-Length, a connection that ended early, invalid compression, or a path that is not UTF-8.
      return typeof status === 'number' && status >= 400 && status < 500
        ? new Problem('malformed_body', 'the request could not be read')
        : null;
  }
}
