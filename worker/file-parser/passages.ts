// Cuts the text of a file into passages, which are searched and cited. Pure.

import type { PassageToWrite } from '../../prisma/store/files/parse-queue';

/** A connected piece of text: a page, a few records of a table, or a whole file. No passage spans two sections. */
export interface Section {
  readonly text: string;
  readonly page: number | null;
  /** Line of the file at which the section starts; null for a file with pages. */
  readonly line: number | null;
}

/** About 300 tokens: a few paragraphs, and short enough that a dozen fit into a context with everything else. */
export const PASSAGE_LENGTH = 1_200;
/** A cut is made after this length, so that no passage is short only because a paragraph ends early. */
const CUT_AFTER = 700;

/** Cuts text at the end of a paragraph, line or word, or anywhere if there is none. No passage is blank or holds a NUL. */
export function cutPassages(sections: readonly Section[]): PassageToWrite[] {
  const passages: PassageToWrite[] = [];
  let before = 0;
  for (const section of sections) {
    const { text, page } = section;
    let { line } = section;
    for (let from = 0; from < text.length;) {
      const to = from + lengthOfNext(text, from);
      const piece = text.slice(from, to);
      const trimmed = piece.trimStart();
      if (trimmed.trimEnd() !== '') {
        const skipped = piece.slice(0, piece.length - trimmed.length);
        passages.push({
          text: storable(trimmed.trimEnd()),
          page,
          line: line === null ? null : line + lineBreaks(skipped),
          start: before + from + skipped.length,
        });
      }
      if (line !== null) line += lineBreaks(piece);
      from = to;
    }
    before += text.length;
  }
  return passages;
}

function lengthOfNext(text: string, from: number): number {
  if (text.length - from <= PASSAGE_LENGTH) return text.length - from;
  const window = text.slice(from, from + PASSAGE_LENGTH);
  for (const end of [/\n\s*\n/g, /\n/g, /[.!?。！？]\s/g, /\s/g]) {
    const cut = [...window.slice(CUT_AFTER).matchAll(end)].at(-1);
    if (cut) return CUT_AFTER + cut.index + cut[0].length;
  }
  // Never between the halves of a surrogate pair.
  return /[\uD800-\uDBFF]$/.test(window) ? PASSAGE_LENGTH - 1 : PASSAGE_LENGTH;
}

function lineBreaks(text: string): number {
  let count = 0;
  for (let at = text.indexOf('\n'); at >= 0; at = text.indexOf('\n', at + 1)) count += 1;
  return count;
}

/** Replaces the characters that Postgres refuses in text. */
function storable(text: string): string {
  return text.replace(/\0|\p{Surrogate}/gu, '\uFFFD');
}
