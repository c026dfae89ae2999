// The body of a write: UTF-8 JSON of at most 1 MB, read after the caller is known. What it holds is the route's schema's.

import express, { type Request, type RequestHandler } from 'express';
import { assertCleanJson } from '../input-checks';
import { Problem } from '../problems';

/** Ten texts of the longest kind in any script, and little enough to hold in memory. */
const BODY_LIMIT_BYTES = 1_048_576;

/** Reads the bytes, whatever they are said to be; unpacked, they are held to the same limit. */
export const readBody: RequestHandler = express.raw({ type: () => true, limit: BODY_LIMIT_BYTES });

const strictUtf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/** The body that `readBody` read, or undefined when it was empty. Answers with 400 or 415 when it is not usable JSON. */
export function parseJson(req: Request): unknown {
  const body = parseText(req);
  assertCleanJson(body);
  return body;
}

/** As `parseJson`, for what holds bodies of its own: what they may hold is asked of each. */
export function parseText(req: Request): unknown {
  const bytes: unknown = req.body;
  if (!Buffer.isBuffer(bytes) || bytes.length === 0) return undefined;
  assertJsonType(req.headers['content-type']);
  try {
    // A byte-order mark stays in the text, and JSON.parse refuses it.
    return JSON.parse(strictUtf8.decode(bytes));
  } catch {
    // The parser's own message repeats a part of the text.
    throw new Problem('malformed_body', 'the body is not JSON in UTF-8, without a byte-order mark');
  }
}

function assertJsonType(header: string | undefined): void {
  const [type = '', ...parameters] = (header ?? '').split(';').map((part) => part.trim().toLowerCase());
  if (type !== 'application/json') {
    throw new Problem('unsupported_media_type', 'send the body as application/json');
  }
  const charset = parameters.find((parameter) => parameter.startsWith('charset='));
  if (charset !== undefined && !/^charset="?utf-?8"?$/.test(charset)) {
    throw new Problem('unsupported_media_type', 'send the body in UTF-8');
  }
}
