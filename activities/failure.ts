// The only translation of errors to Temporal failures. A history stores the result: no content, no secrets.

import { ApplicationFailure, CancelledFailure, CompleteAsyncError } from '@temporalio/activity';
import { Fenced, Transient } from '../prisma/store/db/errors';
import { sqlStateOf } from '../prisma/store/db/sql-errors';
import { FAILURE } from '../workflows/contract';

/** Writes the details that a history must not hold to the worker's log. */
export type FailureLog = (failure: { activity: string; run: string | undefined; error: unknown }) => void;

/** Wraps an activity so that it throws only failures made for a history. */
export function translateFailures<Args extends unknown[], Result>(
  activity: string,
  work: (...args: Args) => Promise<Result>,
  log: FailureLog,
): (...args: Args) => Promise<Result> {
  return async (...args) => {
    try {
      return await work(...args);
    } catch (error) {
      const [input] = args as unknown as [{ run?: string }?];
      const failure = toFailure(activity, error, (what) => log({ ...what, run: input?.run }));
      // A stack would write this machine's paths into the history; the message is enough.
      if (failure instanceof ApplicationFailure) failure.stack = '';
      throw failure;
    }
  };
}

function toFailure(
  activity: string,
  error: unknown,
  log: (failure: { activity: string; error: unknown }) => void,
): unknown {
  if (error instanceof ApplicationFailure || error instanceof CancelledFailure || error instanceof CompleteAsyncError) {
    return error;
  }
  if (error instanceof Fenced) {
    return ApplicationFailure.create({ type: FAILURE.fenced, message: error.message, nonRetryable: true });
  }
  if (error instanceof Transient) {
    return ApplicationFailure.create({ type: FAILURE.transient, message: error.message, nonRetryable: false });
  }
  log({ activity, error });
  const state = sqlStateOf(error);
  const name = error instanceof Error ? error.name : typeof error;
  const message = `${name}${state === undefined ? '' : ` (SQLSTATE ${state})`}; the worker's log has the details`;
  return ApplicationFailure.create({ type: FAILURE.bug, message, nonRetryable: true });
}
