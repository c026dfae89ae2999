// The glyph and text of each outcome, for all reports.

import type { Outcome } from './observation';

export const OUTCOME_WORDS: Readonly<Record<Outcome, { readonly glyph: string; readonly word: string }>> = {
  finished: { glyph: '✓', word: 'everything done once' },
  acted_twice: { glyph: '2', word: 'acted twice' },
  posted_none: { glyph: '○', word: 'posted nothing' },
  unfinished: { glyph: '◐', word: 'posted, not finished' },
};
