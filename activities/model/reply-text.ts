// What to make of the characters a model wrote, before anyone asks what they declare. Pure.

const TAGS = 'think|thinking|reasoning';

/**
 * The text without the reasoning that some models put before their answer in tags, or null when such a block is
 * never closed: then all of it is reasoning. A tag further on in the text is left alone.
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

/** Some chat templates open the block inside the prompt, so that only its end, on a line of its own, is answered. */
function stripUnopened(text: string): string {
  const closed = new RegExp(`^[ \\t]*</(${TAGS})>[ \\t]*$`, 'im').exec(text);
  if (closed === null) return text;
  const before = text.slice(0, closed.index);
  const isQuoted = before.includes('```') || new RegExp(`<(${TAGS})>`, 'i').test(before);
  return isQuoted ? text : text.slice(closed.index + closed[0].length).trimStart();
}

/** NUL and unpaired surrogates, which Postgres takes in no column, become U+FFFD. */
export function cleanText(text: string): string {
  return text.replace(/[\0\p{Surrogate}]/gu, '\uFFFD');
}

/** True when nothing of it can be seen: nothing, white space, control and zero-width characters. */
export function isBlank(text: string): boolean {
  return /^[\s\p{Cc}\p{Default_Ignorable_Code_Point}]*$/u.test(text);
}
