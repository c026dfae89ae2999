// The session of the console. The cookie holds the person's key, encrypted by the API's secret box, so the server stores no
// sessions. The key is checked at every request; a session ends when the key is revoked or after SESSION_HOURS.

import { randomBytes, timingSafeEqual } from 'node:crypto';
import type { Request, Response } from 'express';
import { z } from 'zod';
import { SecretBoxError, type SecretBox } from '../../workflows/policy/secret-box';
import { findKeyHolder } from '../../prisma/store/access/keys';
import type { Database } from '../../prisma/store/db/database';
import { inStatement } from '../../prisma/store/db/sql-errors';
import type { PersonCaller } from '../middleware/caller';
import { CONSOLE } from './paths';

/** A working day. */
export const SESSION_HOURS = 12;
/** How long a sign-in form stays valid in an open tab. */
const FORM_HOURS = 1;

const COOKIE = 'durable_room_console';
/** The secret box refuses a text that was sealed for another use. */
const BOUND_TO = 'console session';
const TOKEN_BYTES = 32;
/** Longer than any key. */
const KEY_LIMIT = 512;

const sealed = z.object({
  /** Null before sign-in: the session only protects the sign-in form. */
  key: z.string().nullable(),
  csrf: z.string(),
  until: z.number(),
});

/** The content of the cookie. The key may have been revoked. */
export interface Session {
  readonly key: string | null;
  /** The token that every form of this session must send. */
  readonly csrf: string;
}

/** A person whose key was valid when the request arrived. */
export interface SignedIn {
  readonly key: string;
  readonly csrf: string;
  readonly person: PersonCaller;
}

export type KeyCheck =
  | { readonly kind: 'person'; readonly person: PersonCaller }
  /** `why` is a sentence for the sign-in page. */
  | { readonly kind: 'refused'; readonly why: string };

/** Checks whether the key belongs to a person who may sign in. */
export async function checkKey(db: Database, key: string): Promise<KeyCheck> {
  const holder =
    /^[\x21-\x7e]+$/.test(key) && key.length <= KEY_LIMIT ? await inStatement(findKeyHolder(db, key)) : null;
  if (holder === null) return { kind: 'refused', why: 'This key is unknown or was revoked.' };
  switch (holder.kind) {
    case 'operator':
      return {
        kind: 'refused',
        why: "This is the operator's key, which cannot read rooms. Sign in with a person's key.",
      };
    case 'service':
      return {
        kind: 'refused',
        why: "This is the key of a service. The console is for people: sign in with a person's key.",
      };
    case 'agent':
      return {
        kind: 'refused',
        why: "This is the key of an agent. The console is for people: sign in with a person's key.",
      };
    case 'person':
      return holder.companySuspended
        ? {
            kind: 'refused',
            why: 'The operator has suspended your company. You can sign in again when the suspension ends.',
          }
        : { kind: 'person', person: holder };
  }
}

/** The session in the request's cookie, or null if the cookie is absent, expired or invalid. */
export function readSession(box: SecretBox, req: Request): Session | null {
  const text = new RegExp(`(?:^|; ?)${COOKIE}=([A-Za-z0-9._-]+)`).exec(req.get('cookie') ?? '')?.[1];
  if (text === undefined) return null;
  try {
    const parsed = sealed.safeParse(JSON.parse(box.open(text, BOUND_TO)));
    return parsed.success && parsed.data.until > Date.now() ? parsed.data : null;
  } catch (error) {
    if (error instanceof SecretBoxError || error instanceof SyntaxError) return null;
    throw error;
  }
}

/** Starts a session with a new form token. It replaces an earlier session. */
export function beginSession(box: SecretBox, req: Request, res: Response, key: string | null): Session {
  const hours = key === null ? FORM_HOURS : SESSION_HOURS;
  const csrf = randomBytes(TOKEN_BYTES).toString('base64url');
  const until = Date.now() + hours * 3_600_000;
  const value = box.seal(JSON.stringify({ key, csrf, until } satisfies z.infer<typeof sealed>), BOUND_TO);
  res.cookie(COOKIE, value, { ...cookieOf(req), maxAge: hours * 3_600_000 });
  return { key, csrf };
}

/** Deletes the session cookie. */
export function endSession(req: Request, res: Response): void {
  res.clearCookie(COOKIE, cookieOf(req));
}

function cookieOf(req: Request) {
  // A proxy that terminates TLS sets this header. A forged header only makes the cookie stricter.
  const secure = req.secure || req.get('x-forwarded-proto') === 'https';
  return { httpOnly: true, sameSite: 'strict', secure, path: CONSOLE } as const;
}

/** Whether a form was sent from a page of this session: checks the form token and the Origin header. */
export function isOwnForm(req: Request, session: Session, token: string | null): boolean {
  return isOwnOrigin(req) && token !== null && isEqualText(token, session.csrf);
}

/** Browsers send the Origin header with every POST, so a POST without it does not come from a page. */
function isOwnOrigin(req: Request): boolean {
  const origin = req.get('origin');
  if (origin === undefined) return false;
  try {
    return new URL(origin).host === req.get('host');
  } catch {
    return false;
  }
}

function isEqualText(a: string, b: string): boolean {
  const [left, right] = [Buffer.from(a), Buffer.from(b)];
  return left.length === right.length && timingSafeEqual(left, right);
}
