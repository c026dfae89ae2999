// Limits for parsing one file, and the outcome. Both sides of the process boundary use it.

import type { PassageToWrite } from '../../prisma/store/files/parse-queue';
import type { UnreadableCode } from '../../prisma/store/files/files';

export interface ParseLimits {
  readonly timeMs: number;
  /** Of the whole process: heaps, buffers and code. */
  readonly memoryBytes: number;
  readonly pages: number;
  /** Total characters of text. */
  readonly text: number;
}

export const PARSE_LIMITS: ParseLimits = {
  timeMs: 10_000,
  memoryBytes: 256 * 1024 * 1024,
  pages: 500,
  // As many characters as the largest file of plain text has.
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
  /** The process ended without an answer: it was killed, or it has a bug. */
  | { readonly kind: 'died' };

/** Thrown while a file is parsed; its code becomes the outcome. */
export class Unreadable extends Error {
  override readonly name = 'Unreadable';
  readonly code: UnreadableCode;
  constructor(code: UnreadableCode) {
    super(code);
    this.code = code;
  }
}
