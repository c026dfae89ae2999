// The visible text of an HTML page. It reads tokens only: nothing is loaded, run or resolved.

import { Parser } from 'htmlparser2';

/** Elements without visible text. */
const HIDDEN: ReadonlySet<string> = new Set([
  'script',
  'style',
  'noscript',
  'template',
  'svg',
  'math',
  'iframe',
  'object',
]);

/** Inline elements; every other element begins a new line. */
const INLINE: ReadonlySet<string> = new Set(
  'a abbr b bdi bdo big cite code data del dfn em font i ins kbd label mark q s samp small span strike strong sub sup time tt u var wbr'.split(
    ' ',
  ),
);

export function textOfHtml(html: string): string {
  const parts: string[] = [];
  let hidden = 0;
  let preformatted = 0;
  const parser = new Parser(
    {
      onopentagname(name) {
        if (HIDDEN.has(name)) hidden += 1;
        if (name === 'pre') preformatted += 1;
        if (name === 'td' || name === 'th') parts.push(' ');
        else if (!INLINE.has(name)) parts.push('\n');
      },
      onclosetag(name) {
        if (HIDDEN.has(name)) hidden -= 1;
        if (name === 'pre') preformatted -= 1;
        if (name === 'td' || name === 'th') parts.push(' ');
        // A line break has no closing tag.
        else if (name !== 'br' && !INLINE.has(name)) parts.push('\n');
      },
      ontext(text) {
        if (hidden === 0) parts.push(preformatted > 0 ? text : text.replace(/\s+/g, ' '));
      },
    },
    { decodeEntities: true },
  );
  parser.end(html);
  return parts
    .join('')
    .replace(/[ \t]+/g, ' ')
    .replace(/ ?\n ?/g, '\n')
    .replace(/\n{3,}/g, '\n\n')
    .trim();
}
