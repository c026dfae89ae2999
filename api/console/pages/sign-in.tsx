// Sign-in with a person's key, and sign-out.

import type { Express, Request, RequestHandler } from 'express';
import { Csrf, type Page } from '../page';
import { ownPath, PATHS } from '../paths';
import { beginSession, checkKey, endSession, readSession, SESSION_HOURS } from '../session';
import { assertOwnForm, fieldOf, formOf, NotSignedIn, readForm, send, signedIn, type ConsoleDeps } from '../visit';

export function mountSignIn(app: Express, deps: ConsoleDeps): void {
  app.get(PATHS.signIn, showForm(deps));
  app.post(PATHS.signIn, readForm, signIn(deps));
  app.post(PATHS.signOut, readForm, signOut(deps));
}

function showForm(deps: ConsoleDeps): RequestHandler {
  return async (req, res) => {
    const query = new URL(req.originalUrl, 'http://console').searchParams;
    const to = ownPath(query.get('to'));
    if (await isSignedIn(deps, req)) return res.redirect(303, to);
    const { csrf } = beginSession(deps.secretBox, req, res, null);
    const why = query.get('ended') === null ? null : 'You were signed out: your key is no longer valid.';
    send(res, null, signInPage({ csrf, to, why, status: 200 }));
  };
}

async function isSignedIn(deps: ConsoleDeps, req: Request): Promise<boolean> {
  try {
    await signedIn(deps, req);
    return true;
  } catch (error) {
    if (error instanceof NotSignedIn) return false;
    throw error;
  }
}

function signIn(deps: ConsoleDeps): RequestHandler {
  return async (req, res) => {
    const session = readSession(deps.secretBox, req);
    const form = formOf(req);
    const to = ownPath(form.get('to'));
    const showFormAgain = (why: string): void => {
      const { csrf } = beginSession(deps.secretBox, req, res, null);
      send(res, null, signInPage({ csrf, to, why, status: 403 }));
    };
    if (session === null) return showFormAgain('The form has expired. Please try again.');
    assertOwnForm(req, session);
    const key = fieldOf(form, 'key').trim();
    const check = await checkKey(deps.db, key);
    if (check.kind === 'refused') return showFormAgain(check.why);
    beginSession(deps.secretBox, req, res, key);
    res.redirect(303, to);
  };
}

function signOut(deps: ConsoleDeps): RequestHandler {
  return (req, res) => {
    const session = readSession(deps.secretBox, req);
    if (session !== null) assertOwnForm(req, session);
    endSession(req, res);
    res.redirect(303, PATHS.signIn);
  };
}

function signInPage(form: { csrf: string; to: string; why: string | null; status: number }): Page {
  const { csrf, to, why, status } = form;
  return {
    title: 'Sign in',
    status,
    body: (
      <>
        {why !== null && (
          <div class="box bad" role="alert" id="why">
            {why}
          </div>
        )}
        <form method="post" action={PATHS.signIn} class="card">
          <Csrf token={csrf} />
          <input type="hidden" name="to" value={to} />
          <label for="key">Your key</label>
          <input
            id="key"
            name="key"
            type="password"
            autocomplete="current-password"
            required
            aria-describedby="about-key"
            aria-invalid={why === null ? undefined : 'true'}
          />
          <p class="hint" id="about-key">
            A person’s key, which an admin of your company creates. You stay signed in for {SESSION_HOURS} hours or
            until the key is revoked.
          </p>
          <button>Sign in</button>
        </form>
      </>
    ),
  };
}
