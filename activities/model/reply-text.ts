// Cleans the text of a model's answer before reply.ts parses it. Pure.

const TAGS = 'think|thinking|reasoning';

/**
 * The text without the reasoning that some models put in tags before their answer. Null: the block has no end, so all
 * of the text is reasoning. Tags later in the text stay.
 */
export function stripReasoning(text: string): string | null {
  let rest = text;
  for (;;) {
    const opened = new RegExp(`^\\s*<(${TAGS})>`, 'i').exec(rest);
    if (opened === null) break;
    const inside = rest.slice(opened[0].length);
    const closed = new RegExp(`</${opened[1]}>`, 'i').exec(inside);
    if (closed === null) return null;
    rest = inside.slice(closed.index + closed[0].length).trimStart();
  }
  return rest === text ? stripUnopened(text) : rest;
}

/** Some chat templates open the block inside the prompt: the answer then holds only its end, alone on a line. */
function stripUnopened(text: string): string {
  const closed = new RegExp(`^[ \\t]*</(${TAGS})>[ \\t]*$`, 'im').exec(text);
  if (closed === null) return text;
  const before = text.slice(0, closed.index);
  const isQuoted = before.includes('```') || new RegExp(`<(${TAGS})>`, 'i').test(before);
  return isQuoted ? text : text.slice(closed.index + closed[0].length).trimStart();
}

/** Replaces NUL and unpaired surrogates, which Postgres does not store, with U+FFFD. */
export function cleanText(text: string): string {
  return text.replace(/[\0\p{Surrogate}]/gu, '\uFFFD');
}

/** True when the text has no visible character: only white space, control and zero-width characters. */
export function isBlank(text: string): boolean {
  return /^[\s\p{Cc}\p{Default_Ignorable_Code_Point}]*$/u.test(text);
}
