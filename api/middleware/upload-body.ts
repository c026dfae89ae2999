// Reads the body of an upload as bytes of any type. It runs after authentication.

import express, { type Request, type RequestHandler } from 'express';

export interface Upload {
  readonly bytes: Buffer;
  /** The Content-Type without parameters; null when the client sent none. */
  readonly mediaType: string | null;
}

/** Reads at most `limit` bytes. The limit also applies to a compressed body after it is unpacked. */
export function readUpload(limit: number): RequestHandler {
  return express.raw({ type: () => true, limit });
}

/** The upload that `readUpload` read. */
export function bytesOf(req: Request): Upload {
  const bytes: unknown = req.body;
  const type = req.headers['content-type']?.split(';')[0]?.trim().toLowerCase();
  return { bytes: Buffer.isBuffer(bytes) ? bytes : Buffer.alloc(0), mediaType: type || null };
}
