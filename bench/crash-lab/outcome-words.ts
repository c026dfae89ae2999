// How outcomes are shown, in the same words everywhere.

import type { Outcome } from './observation';

export const OUTCOME_WORDS: Readonly<Record<Outcome, { readonly glyph: string; readonly word: string }>> = {
  finished: { glyph: '✓', word: 'everything done once' },
  acted_twice: { glyph: '2', word: 'acted twice' },
  posted_none: { glyph: '○', word: 'posted none' },
  unfinished: { glyph: '◐', word: 'posted, and left unfinished' },
};
