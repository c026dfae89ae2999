// The body of an upload: bytes, whatever they are, read after the caller is known.

import express, { type Request, type RequestHandler } from 'express';

export interface Upload {
  readonly bytes: Buffer;
  /** As the client says, without parameters; null when it says nothing. */
  readonly mediaType: string | null;
}

/** Reads the bytes up to a limit, which holds for what a packed body unpacks to as well. */
export function readUpload(limit: number): RequestHandler {
  return express.raw({ type: () => true, limit });
}

/** What `readUpload` read. */
export function bytesOf(req: Request): Upload {
  const bytes: unknown = req.body;
  const type = req.headers['content-type']?.split(';')[0]?.trim().toLowerCase();
  return { bytes: Buffer.isBuffer(bytes) ? bytes : Buffer.alloc(0), mediaType: type || null };
}
