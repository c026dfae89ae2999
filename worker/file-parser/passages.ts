// The text of a file, cut into the pieces that are searched and cited. Pure.

import type { PassageToWrite } from '../../prisma/store/files/parse-queue';

/** Text that stands together: a page, a few records of a table, or a whole file. */
export interface Section {
  readonly text: string;
  readonly page: number | null;
  /** Line of the file at which it starts, where there are no pages. */
  readonly line: number | null;
}

/** About 300 tokens: a few paragraphs, small enough that a dozen fit into a context beside everything else. */
export const PASSAGE_LENGTH = 1_200;
/** A cut is looked for in the last part of a passage, so that none is short for the sake of a nice end. */
const CUT_AFTER = 700;

/** Cuts text where paragraphs, lines or words end, and hard where nothing does. No passage is blank or holds a NUL. */
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

/** What Postgres refuses in any text, replaced. */
function storable(text: string): string {
  return text.replace(/\0|\p{Surrogate}/gu, '\uFFFD');
}
