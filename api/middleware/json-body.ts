// Reads the body of a write: UTF-8 JSON of at most 1 MB. It runs after authentication; the route's schema checks the
// content.

import express, { type Request, type RequestHandler } from 'express';
import { requireCleanJson } from './input-checks';
import { Problem } from '../problems';

/** 1 MB: room for ten texts of the greatest length in any script, and little enough to hold in memory. */
const BODY_LIMIT_BYTES = 1_048_576;

/** Reads the bytes, whatever their content type. The limit also applies to a compressed body after it is unpacked. */
export const readBody: RequestHandler = express.raw({ type: () => true, limit: BODY_LIMIT_BYTES });

const strictUtf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/**
 * Parses the body that `readBody` read; undefined when it is empty. Answers with 400 or 415 when it is not valid JSON.
 */
export function parseJson(req: Request): unknown {
  const body = parseText(req);
  requireCleanJson(body);
  return body;
}

/** Like `parseJson`, without the checks of the content. For a batch of bodies, each of which is checked later. */
export function parseText(req: Request): unknown {
  const bytes: unknown = req.body;
  if (!Buffer.isBuffer(bytes) || bytes.length === 0) return undefined;
  requireJsonType(req.headers['content-type']);
  try {
    // The decoder keeps a byte-order mark, and JSON.parse refuses it.
    return JSON.parse(strictUtf8.decode(bytes));
  } catch {
    // The message of the JSON parser is not used, because it repeats a part of the body.
    throw new Problem('malformed_body', 'the body must be JSON in UTF-8 without a byte-order mark');
  }
}

function requireJsonType(header: string | undefined): void {
  const [type = '', ...parameters] = (header ?? '').split(';').map((part) => part.trim().toLowerCase());
  if (type !== 'application/json') {
    throw new Problem('unsupported_media_type', 'send the body as application/json');
  }
  const charset = parameters.find((parameter) => parameter.startsWith('charset='));
  if (charset !== undefined && !/^charset="?utf-?8"?$/.test(charset)) {
    throw new Problem('unsupported_media_type', 'send the body in UTF-8');
  }
}
