// What a page says when it can't do what was asked: in the API's words where the API said no, in ours where we failed.

import type { ErrorRequestHandler, Request, RequestHandler } from 'express';
import { localsOf } from '../middleware/request-log';
import { loggable, problemOfUnreadable } from '../middleware/error-handler';
import { Problem, problemOf } from '../problems';
import { ProblemBox, type Page } from './page';
import { PATHS } from './paths';
import { Refused, type ShownProblem } from './routes-client';
import type { SignedIn } from './session';
import { NotSignedIn, send, sendToSignIn, signedIn, type ConsoleDeps } from './visit';

export const answerUnknownPage: RequestHandler = () => {
  throw new Problem('not_found', 'there is no page at this address');
};

/** Answers with a page whatever went wrong on the way to one. */
export function answerFailures(deps: ConsoleDeps): ErrorRequestHandler {
  return async (error: unknown, req, res, next) => {
    if (res.headersSent) return next(error);
    if (error instanceof NotSignedIn) return sendToSignIn(req, res, error.why);
    const refused = refusalOf(error);
    // Its key was revoked between two requests of one page.
    if (refused?.status === 401) return sendToSignIn(req, res, refused.problem.detail);
    const { requestId } = localsOf(res);
    if (refused === null) deps.log.error({ err: loggable(error), request: requestId }, 'a page failed');
    send(res, await whoeverIs(deps, req), failurePage(refused, req, requestId));
  };
}

/** Who is signed in, if that can still be said. */
async function whoeverIs(deps: ConsoleDeps, req: Request): Promise<SignedIn | null> {
  try {
    return await signedIn(deps, req);
  } catch {
    return null;
  }
}

interface Refusal {
  readonly status: number;
  readonly problem: Pick<ShownProblem, 'code' | 'title' | 'detail'>;
  readonly retryAfterSeconds: number | null;
}

function refusalOf(error: unknown): Refusal | null {
  if (error instanceof Refused) return error;
  const problem = problemOf(error) ?? problemOfUnreadable(error);
  if (problem === null) return null;
  const { status, code, message } = problem;
  return {
    status,
    problem: { code, title: String(problem.toBody('')['title']), detail: message },
    retryAfterSeconds: null,
  };
}

/** A sentence more than the problem itself has, by what the reader can do about it. */
const ADVICE: Readonly<Record<number, string>> = {
  403: 'Ask an admin of your company if you should be able to do this.',
  404: 'It may have been in a room that your company has left, or the address may be mistyped.',
  409: 'Somebody else may have changed it meanwhile. Look at it again before you go on.',
  410: 'Nothing was done.',
  429: 'You, or something else with your key, asked for very much at once.',
  503: 'Nothing is lost. Try again in a moment.',
};

function failurePage(refused: Refusal | null, req: Request, requestId: string): Page {
  const status = refused?.status ?? 500;
  const problem = refused?.problem ?? {
    title: 'Something went wrong on our side',
    detail: 'The page could not be made.',
  };
  const wait = refused?.retryAfterSeconds ?? null;
  return {
    title: status === 404 ? 'Nothing here' : 'This did not work',
    status,
    body: (
      <>
        <ProblemBox problem={problem} />
        {ADVICE[status] !== undefined && <p>{ADVICE[status]}</p>}
        {wait !== null && <p>Try again in {wait} seconds.</p>}
        <p>
          {req.method === 'GET' ? 'Reload the page to try again, or go' : 'Go back to what you wrote, or go'}{' '}
          <a href={PATHS.rooms}>to your rooms</a>.
        </p>
        <p class="hint">
          Request <code>{requestId}</code>
        </p>
      </>
    ),
  };
}
