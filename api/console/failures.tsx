// The error page: it shows the API's problem, or a general message after a bug.

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

/** Answers every error with an error page or a redirect to the sign-in page. */
export function answerFailures(deps: ConsoleDeps): ErrorRequestHandler {
  return async (error: unknown, req, res, next) => {
    if (res.headersSent) return next(error);
    if (error instanceof NotSignedIn) return sendToSignIn(req, res, error.why);
    const refused = refusalOf(error);
    // The key was revoked between two requests of one page.
    if (refused?.status === 401) return sendToSignIn(req, res, refused.problem.detail);
    const { requestId } = localsOf(res);
    if (refused === null) deps.log.error({ err: loggable(error), request: requestId }, 'a page failed');
    send(res, await findSignedIn(deps, req), failurePage(refused, req, requestId));
  };
}

/** The person who is signed in, or null, also if the lookup fails. */
async function findSignedIn(deps: ConsoleDeps, req: Request): Promise<SignedIn | null> {
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

/** By status, what the reader can do about the problem. */
const ADVICE: Readonly<Record<number, string>> = {
  403: 'If you need this permission, ask an admin of your company.',
  404: 'Check the address. Your company may have left the room.',
  409: 'It may have changed in the meantime. Reload it before you try again.',
  410: 'Your request changed nothing.',
  429: 'Too many requests were made with your key.',
  503: 'No data was lost. Try again in a moment.',
};

const TITLES: Readonly<Record<number, string>> = { 404: 'Not found', 429: 'Too many requests' };

function failurePage(refused: Refusal | null, req: Request, requestId: string): Page {
  const status = refused?.status ?? 500;
  const problem = refused?.problem ?? {
    title: 'Internal error',
    detail: 'The page could not be loaded.',
  };
  const wait = refused?.retryAfterSeconds ?? null;
  return {
    title: TITLES[status] ?? 'Request failed',
    status,
    body: (
      <>
        <ProblemBox problem={problem} />
        {ADVICE[status] !== undefined && <p>{ADVICE[status]}</p>}
        {wait !== null && <p>Try again in {wait} seconds.</p>}
        <p>
          {req.method === 'GET' ? 'Reload the page to try again, or go' : 'Go back to the form, or go'}{' '}
          <a href={PATHS.rooms}>to your rooms</a>.
        </p>
        <p class="hint">
          Request <code>{requestId}</code>
        </p>
      </>
    ),
  };
}
