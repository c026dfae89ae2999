// What reading one file may cost, and what comes of it. Shared by both sides of the process boundary.

import type { PassageToWrite } from '../../prisma/store/files/parse-queue';
import type { UnreadableCode } from '../../prisma/store/files/files';

export interface ParseLimits {
  readonly timeMs: number;
  /** Of the whole process: its heaps, its buffers, its code. */
  readonly memoryBytes: number;
  readonly pages: number;
  /** Characters of text in all. */
  readonly text: number;
}

export const PARSE_LIMITS: ParseLimits = {
  timeMs: 10_000,
  memoryBytes: 256 * 1024 * 1024,
  pages: 500,
  // As much as the largest file of plain text has.
  text: 20 * 1024 * 1024,
};

export interface ParseRequest {
  readonly mediaType: string;
  readonly bytes: Uint8Array;
  readonly limits: ParseLimits;
}

export type ParseOutcome =
  | { readonly kind: 'read'; readonly passages: readonly PassageToWrite[]; readonly pages: number | null }
  | { readonly kind: 'unreadable'; readonly code: UnreadableCode }
  /** It ended and said nothing: killed, or a fault of ours. */
  | { readonly kind: 'died' };

/** Thrown while a file is read, and answered with the code. */
export class Unreadable extends Error {
  override readonly name = 'Unreadable';
  readonly code: UnreadableCode;
  constructor(code: UnreadableCode) {
    super(code);
    this.code = code;
  }
}
