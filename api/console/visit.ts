// One request to the console: who is signed in, what was asked for, and the way from a handler's reply to what a browser gets.

import { randomUUID } from 'node:crypto';
import express, { type Request, type RequestHandler, type Response } from 'express';
import type { Logger } from 'pino';
import type { SecretBox } from '../../workflows/policy/secret-box';
import type { Db } from '../../prisma/store/db/transaction';
import type { ApiTransport } from '../mcp/api-transport';
import { localsOf } from '../middleware/request-log';
import { Problem } from '../problems';
import type { Page } from './page';
import { renderPage } from './page';
import { PATHS } from './paths';
import { routesClient, type RoutesClient } from './routes-client';
import { checkKey, endSession, isOwnForm, readSession, type SignedIn } from './session';

/** What a page may know of the process that serves it. */
export interface ConsoleDeps {
  readonly db: Db;
  readonly secretBox: SecretBox;
  readonly log: Logger;
  /** Of the Temporal Web UI, for links to a run. */
  readonly temporalUi: { readonly url: string; readonly namespace: string } | null;
  readonly transportFor: (origin: { authorization: string; requestId: string }) => ApiTransport;
}

export interface Visit {
  readonly who: SignedIn;
  readonly api: RoutesClient;
  /** An id in the path, as it was given: the API's routes say whether it is one. */
  readonly id: (name: string) => string;
  readonly query: URLSearchParams;
  readonly form: URLSearchParams;
  readonly temporalUi: ConsoleDeps['temporalUi'];
  /** A name for the one write that a form on this page makes. */
  readonly once: string;
}

export type Reply = Page | { readonly redirect: string };

/** Nobody is signed in, or not any more. */
export class NotSignedIn extends Error {
  override readonly name = 'NotSignedIn';
  /** A sentence, when somebody was. */
  readonly why: string | null;

  constructor(why: string | null) {
    super(why ?? 'nobody is signed in');
    this.why = why;
  }
}

/** More than the longest text takes, escaped as forms escape it. */
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

/** A field as it was typed: browsers send line breaks as CR LF. */
export function fieldOf(form: URLSearchParams, name: string): string {
  return (form.get(name) ?? '').replaceAll('\r\n', '\n');
}

/** Who is signed in. @throws NotSignedIn */
export async function signedIn(deps: ConsoleDeps, req: Request): Promise<SignedIn> {
  const session = readSession(deps.secretBox, req);
  if (session === null || session.key === null) throw new NotSignedIn(null);
  const check = await checkKey(deps.db, session.key);
  if (check.kind === 'refused') throw new NotSignedIn(check.why);
  return { key: session.key, csrf: session.csrf, person: check.person };
}

/** A page that is only read. */
export function shows(deps: ConsoleDeps, handle: (visit: Visit) => Promise<Reply>): RequestHandler {
  return async (req, res) => {
    const who = await signedIn(deps, req);
    send(res, who, await handle(visitOf(deps, req, res, who)));
  };
}

/** What a form asks for. Only a form of a page of this very session gets as far as `handle`. */
export function takes(deps: ConsoleDeps, handle: (visit: Visit) => Promise<Reply>): RequestHandler[] {
  const act: RequestHandler = async (req, res) => {
    const who = await signedIn(deps, req);
    assertOwnForm(req, who);
    send(res, who, await handle(visitOf(deps, req, res, who)));
  };
  return [readForm, act];
}

/** Answers with 403 when a form was not sent from a page of this session. */
export function assertOwnForm(req: Request, session: { readonly key: string | null; readonly csrf: string }): void {
  if (isOwnForm(req, session, formOf(req).get('csrf'))) return;
  throw new Problem('not_allowed', 'this form was not sent from a page of your session: load the page again');
}

function visitOf(deps: ConsoleDeps, req: Request, res: Response, who: SignedIn): Visit {
  localsOf(res).keyId = who.person.keyId;
  const transport = deps.transportFor({ authorization: `Bearer ${who.key}`, requestId: localsOf(res).requestId });
  return {
    who,
    api: routesClient(transport),
    id: (name) => encodeURIComponent(String(req.params[name])),
    query: new URL(req.originalUrl, 'http://console').searchParams,
    form: formOf(req),
    temporalUi: deps.temporalUi,
    once: randomUUID(),
  };
}

/** Sends what a handler replied. */
export function send(res: Response, who: SignedIn | null, reply: Reply): void {
  if ('redirect' in reply) {
    res.redirect(303, reply.redirect);
    return;
  }
  res
    .status(reply.status ?? 200)
    .type('text/html')
    .send(renderPage(reply, who));
}

/** To the sign-in page, and back to where a reader was going. */
export function sendToSignIn(req: Request, res: Response, why: string | null): void {
  endSession(req, res);
  const to = req.method === 'GET' ? `?to=${encodeURIComponent(req.originalUrl)}` : '?to=';
  res.redirect(303, `${PATHS.signIn}${to}${why === null ? '' : '&ended=1'}`);
}
