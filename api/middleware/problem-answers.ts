// The one error handler: whatever was thrown becomes a problem, and what nobody expected is logged and not shown.

import type { ErrorRequestHandler, RequestHandler } from 'express';
import type { Logger } from 'pino';
import { constraintOf, sqlStateOf } from '../../prisma/store/db/sql-errors';
import { Problem, problemOf } from '../problems';
import { localsOf } from './request-log';

/** Answers with 404 for what no route took. */
export const answerUnknownRoute: RequestHandler = () => {
  throw new Problem('not_found', 'no such route');
};

export function answerProblems(log: Logger): ErrorRequestHandler {
  return (error: unknown, _req, res, next) => {
    const { requestId } = localsOf(res);
    const known = problemOf(error) ?? problemOfReading(error);
    if (known === null) log.error({ err: loggable(error), request: requestId }, 'a request failed');
    // Half an answer can't be taken back: the connection is cut.
    if (res.headersSent) return next(error);
    const problem = known ?? new Problem('internal', 'the request failed; its id is in the log');
    res.status(problem.status).set(problem.headers).type('application/problem+json');
    res.send(JSON.stringify(problem.toBody(requestId)));
  };
}

/** What the log may hold of an error. A message of Prisma or Postgres repeats arguments and rows: content, so not that. */
export function loggable(error: unknown): Record<string, unknown> {
  if (!(error instanceof Error)) return { type: typeof error };
  const state = sqlStateOf(error);
  const quotes = state !== undefined || error.name.startsWith('Prisma');
  return {
    type: error.name,
    ...(!quotes && { message: error.message }),
    ...(quotes && { state, constraint: constraintOf(error) }),
    stack: error.stack
      ?.split('\n')
      .filter((line) => /^\s+at /.test(line))
      .join('\n'),
  };
}

/** What Express and its body reader throw for a request that can't be read. Their texts are not shown. */
export function problemOfReading(error: unknown): Problem | null {
  if (!(error instanceof Error)) return null;
  const { type, status, limit } = error as Error & { type?: unknown; status?: unknown; limit?: unknown };
  switch (type) {
    case 'entity.too.large':
      return new Problem('body_too_large', `a body may have ${Number(limit)} bytes at most here`);
    case 'encoding.unsupported':
    case 'charset.unsupported':
      return new Problem('unsupported_media_type', 'send the body in UTF-8, plain or as gzip, deflate or br');
    default:
      // A length that is not true, a connection that ended half-way, an archive that is none, a path that is no text.
      return typeof status === 'number' && status >= 400 && status < 500
        ? new Problem('malformed_body', 'the request could not be read')
        : null;
  }
}
