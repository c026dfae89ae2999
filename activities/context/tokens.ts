// Tokens, counted as one widespread tokenizer counts them. Another model's may count a tenth more or less: the bound is far
// below what current models hold.

/** Of a word without an end the tokenizer's time grows with the square of its length, so none is given to it whole. */
const RUNS = /\S{64}|\s{64}/gu;

type Count = (text: string, options: { disallowedSpecial: Set<string> }) => number;
let loaded: Count | undefined;

/**
 * Tokens of a text, or a few more. Time grows with the text's length, whatever it holds.
 *
 * The first call in a process loads a table, which takes a fifth of a second and 60 MB: ask `mostTokens` first.
 */
export function countTokens(text: string): number {
  // oxlint-disable-next-line typescript/no-require-imports -- an import would load it at the start
  loaded ??= (require('gpt-tokenizer/encoding/o200k_base') as { countTokens: Count }).countTokens;
  // What looks like a mark of the tokenizer's own is text like any other.
  return loaded(text.replace(RUNS, '$&\n'), { disallowedSpecial: new Set() });
}

/** No tokenizer makes more tokens of a text than it has bytes. */
export function mostTokens(text: string): number {
  return Buffer.byteLength(text, 'utf8');
}
