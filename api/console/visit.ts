// One request to the console: checks the session, gives the handler its input (`Visit`) and sends its reply to the browser.

import { randomUUID } from 'node:crypto';
import express, { type Request, type RequestHandler, type Response } from 'express';
import type { Logger } from 'pino';
import type { SecretBox } from '../../workflows/policy/secret-box';
import type { Database } from '../../prisma/store/db/database';
import type { ApiTransport } from '../mcp/api-transport';
import { localsOf } from '../middleware/request-log';
import { Problem } from '../problems';
import type { Page } from './page';
import { renderPage } from './page';
import { PATHS } from './paths';
import { routesClient, type RoutesClient } from './routes-client';
import { checkKey, endSession, isOwnForm, readSession, type SignedIn } from './session';

/** What the pages need from the process. */
export interface ConsoleDeps {
  readonly db: Database;
  readonly secretBox: SecretBox;
  readonly log: Logger;
  /** The address of the Temporal Web UI, for links to workflows; null if it is not configured. */
  readonly temporalUi: { readonly url: string; readonly namespace: string } | null;
  readonly transportFor: (origin: { authorization: string; requestId: string }) => ApiTransport;
}

export interface Visit {
  readonly user: SignedIn;
  readonly api: RoutesClient;
  /** An id from the path, URL-encoded and not checked; the API's routes check it. */
  readonly id: (name: string) => string;
  readonly query: URLSearchParams;
  readonly form: URLSearchParams;
  readonly temporalUi: ConsoleDeps['temporalUi'];
  /** The idempotency key for the write of a form on this page. */
  readonly once: string;
}

export type Reply = Page | { readonly redirect: string };

/** No person is signed in, or the session has ended. */
export class NotSignedIn extends Error {
  override readonly name = 'NotSignedIn';
  /** A sentence for the sign-in page if a session has ended, otherwise null. */
  readonly why: string | null;

  constructor(why: string | null) {
    super(why ?? 'no person is signed in');
    this.why = why;
  }
}

/** More than the longest allowed text in form encoding. */
const FORM_LIMIT_BYTES = 524_288;

/** Reads a form's fields as text. */
export const readForm: RequestHandler = express.raw({
  type: 'application/x-www-form-urlencoded',
  limit: FORM_LIMIT_BYTES,
});

export function formOf(req: Request): URLSearchParams {
  const bytes: unknown = req.body;
  return new URLSearchParams(Buffer.isBuffer(bytes) ? bytes.toString('utf8') : '');
}

/** A field with LF line breaks; browsers send CR LF. */
export function fieldOf(form: URLSearchParams, name: string): string {
  return (form.get(name) ?? '').replaceAll('\r\n', '\n');
}

/** The person who is signed in. @throws NotSignedIn */
export async function signedIn(deps: ConsoleDeps, req: Request): Promise<SignedIn> {
  const session = readSession(deps.secretBox, req);
  if (session === null || session.key === null) throw new NotSignedIn(null);
  const check = await checkKey(deps.db, session.key);
  if (check.kind === 'refused') throw new NotSignedIn(check.why);
  return { key: session.key, csrf: session.csrf, person: check.person };
}

/** A handler for GET requests. */
export function handleGet(deps: ConsoleDeps, handle: (visit: Visit) => Promise<Reply>): RequestHandler {
  return async (req, res) => {
    const user = await signedIn(deps, req);
    send(res, user, await handle(visitOf(deps, req, res, user)));
  };
}

/** A handler for a form's POST request. It refuses forms that do not come from a page of this session. */
export function handleForm(deps: ConsoleDeps, handle: (visit: Visit) => Promise<Reply>): RequestHandler[] {
  const act: RequestHandler = async (req, res) => {
    const user = await signedIn(deps, req);
    assertOwnForm(req, user);
    send(res, user, await handle(visitOf(deps, req, res, user)));
  };
  return [readForm, act];
}

/** @throws Problem (403) if the form was not sent from a page of this session */
export function assertOwnForm(req: Request, session: { readonly key: string | null; readonly csrf: string }): void {
  if (isOwnForm(req, session, formOf(req).get('csrf'))) return;
  throw new Problem('not_allowed', 'this form belongs to another session: reload the page and try again');
}

function visitOf(deps: ConsoleDeps, req: Request, res: Response, user: SignedIn): Visit {
  localsOf(res).keyId = user.person.keyId;
  const transport = deps.transportFor({ authorization: `Bearer ${user.key}`, requestId: localsOf(res).requestId });
  return {
    user,
    api: routesClient(transport),
    id: (name) => encodeURIComponent(String(req.params[name])),
    query: new URL(req.originalUrl, 'http://console').searchParams,
    form: formOf(req),
    temporalUi: deps.temporalUi,
    once: randomUUID(),
  };
}

/** Sends a handler's reply. */
export function send(res: Response, user: SignedIn | null, reply: Reply): void {
  if ('redirect' in reply) {
    res.redirect(303, reply.redirect);
    return;
  }
  res
    .status(reply.status ?? 200)
    .type('text/html')
    .send(renderPage(reply, user));
}

/** Redirects to the sign-in page; after sign-in the person returns to the requested page. */
export function sendToSignIn(req: Request, res: Response, why: string | null): void {
  endSession(req, res);
  const to = req.method === 'GET' ? `?to=${encodeURIComponent(req.originalUrl)}` : '?to=';
  res.redirect(303, `${PATHS.signIn}${to}${why === null ? '' : '&ended=1'}`);
}
