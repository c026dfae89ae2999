// Counts tokens with one common tokenizer. The tokenizer of another model may count a tenth more or less; the limit of
// a context is far below the limits of current models.

/** The tokenizer's time grows with the square of the length of a word, so long words are split. */
const RUNS = /\S{64}|\s{64}/gu;

type Count = (text: string, options: { disallowedSpecial: Set<string> }) => number;
let loaded: Count | undefined;

/**
 * The tokens of a text, or a few more. The time is proportional to the length of any text.
 *
 * The first call in a process loads a table, which takes 0.2 s and 60 MB: call `mostTokens` first.
 */
export function countTokens(text: string): number {
  // oxlint-disable-next-line typescript/no-require-imports -- an import would load it at the start
  loaded ??= (require('gpt-tokenizer/encoding/o200k_base') as { countTokens: Count }).countTokens;
  // A text that looks like a special token of the tokenizer is counted as text.
  return loaded(text.replace(RUNS, '$&\n'), { disallowedSpecial: new Set() });
}

/** An upper bound: no tokenizer makes more tokens of a text than the text has bytes. */
export function mostTokens(text: string): number {
  return Buffer.byteLength(text, 'utf8');
}
