// Who is signed in to the console. The cookie holds the key itself, sealed by the API's secret box, so nothing is kept on our
// side; the key is looked up at every request, and a session ends with it, or after its time.

import { randomBytes, timingSafeEqual } from 'node:crypto';
import type { Request, Response } from 'express';
import { z } from 'zod';
import { SecretBoxError, type SecretBox } from '../../workflows/policy/secret-box';
import { findKeyHolder } from '../../prisma/store/access/keys';
import type { Database } from '../../prisma/store/db/database';
import { inStatement } from '../../prisma/store/db/sql-errors';
import type { PersonCaller } from '../middleware/caller';
import { CONSOLE } from './paths';

/** A working day: who signed in in the morning need not do so again before the evening. */
export const SESSION_HOURS = 12;
/** A sign-in form may wait this long in an open tab. */
const FORM_HOURS = 1;

const COOKIE = 'durable_room_console';
const BOUND_TO = 'console session';
const TOKEN_BYTES = 32;
/** Longer than any key of ours. */
const KEY_LIMIT = 512;

const sealed = z.object({
  /** Null: nobody is signed in, and the session only guards the sign-in form. */
  key: z.string().nullable(),
  csrf: z.string(),
  until: z.number(),
});

/** What the cookie says, whether or not its key is still good. */
export interface Session {
  readonly key: string | null;
  /** What every form of this session must send back. */
  readonly csrf: string;
}

/** A person whose key was good a moment ago. */
export interface SignedIn {
  readonly key: string;
  readonly csrf: string;
  readonly person: PersonCaller;
}

export type KeyCheck =
  | { readonly kind: 'person'; readonly person: PersonCaller }
  /** A sentence for who tried it. */
  | { readonly kind: 'refused'; readonly why: string };

/** Whether somebody may sign in with this key. */
export async function checkKey(db: Database, key: string): Promise<KeyCheck> {
  const holder =
    /^[\x21-\x7e]+$/.test(key) && key.length <= KEY_LIMIT ? await inStatement(findKeyHolder(db, key)) : null;
  if (holder === null) return { kind: 'refused', why: 'This key is not known here, or it was revoked.' };
  switch (holder.kind) {
    case 'operator':
      return {
        kind: 'refused',
        why: "This is the operator's key. It reads no room: sign in with the key of a person.",
      };
    case 'service':
      return {
        kind: 'refused',
        why: 'This is the key of a service. The console is for people: use the key of a person.',
      };
    case 'agent':
      return {
        kind: 'refused',
        why: 'This is the key of an agent. The console is for people: use the key of a person.',
      };
    case 'person':
      return holder.companySuspended
        ? {
            kind: 'refused',
            why: 'The operator has suspended your company. Nobody of it can sign in until it is resumed.',
          }
        : { kind: 'person', person: holder };
  }
}

/** The session that a request's cookie holds, or null when there is none, its time is over or it is not of our making. */
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

/** Begins a session, with a form token of its own, in the place of any before it. */
export function beginSession(box: SecretBox, req: Request, res: Response, key: string | null): Session {
  const hours = key === null ? FORM_HOURS : SESSION_HOURS;
  const csrf = randomBytes(TOKEN_BYTES).toString('base64url');
  const until = Date.now() + hours * 3_600_000;
  const value = box.seal(JSON.stringify({ key, csrf, until } satisfies z.infer<typeof sealed>), BOUND_TO);
  res.cookie(COOKIE, value, { ...cookieOf(req), maxAge: hours * 3_600_000 });
  return { key, csrf };
}

/** Takes the cookie back. */
export function endSession(req: Request, res: Response): void {
  res.clearCookie(COOKIE, cookieOf(req));
}

function cookieOf(req: Request) {
  // A proxy that ends TLS says so. Whoever forges that only makes the cookie stricter.
  const secure = req.secure || req.get('x-forwarded-proto') === 'https';
  return { httpOnly: true, sameSite: 'strict', secure, path: CONSOLE } as const;
}

/** Whether a form was sent from a page of this session: by its token, and by the origin that browsers state. */
export function isOwnForm(req: Request, session: Session, token: string | null): boolean {
  return isOwnOrigin(req) && token !== null && sameText(token, session.csrf);
}

/** Browsers state the origin of every POST. One without it was not made by a page. */
function isOwnOrigin(req: Request): boolean {
  const origin = req.get('origin');
  if (origin === undefined) return false;
  try {
    return new URL(origin).host === req.get('host');
  } catch {
    return false;
  }
}

function sameText(a: string, b: string): boolean {
  const [left, right] = [Buffer.from(a), Buffer.from(b)];
  return left.length === right.length && timingSafeEqual(left, right);
}
