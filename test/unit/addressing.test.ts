// The agents that a message's text addresses, and the valid names of agents and rooms. Wakes are tested elsewhere.

import { setFlagsFromString } from 'node:v8';
import { findMentions, type Addressee } from '../../workflows/policy/mentions';

// V8 stops optimising regular expressions in a process that has compiled very many of them. The time must be proportional to
// the text there too, so the tests run in that worst state.
beforeAll(() => setFlagsFromString('--no-regexp-optimization'));
afterAll(() => setFlagsFromString('--regexp-optimization'));

/** Agents whose id is their slug, so that expectations are easy to read. */
function agents(...slugs: (string | [slug: string, name: string])[]): Addressee[] {
  return slugs.map((entry) => {
    const [slug, name] = typeof entry === 'string' ? [entry, entry] : entry;
    return { agentId: slug, slug, name };
  });
}

function addressed(text: string, roster: readonly Addressee[]): string {
  return findMentions(text, roster).agentIds.join(' ');
}

const SCRIBE = agents('scribe');

describe('the character before the sign', () => {
  test.each([
    ['an e-mail address', 'write to jo@scribe.example', ''],
    ['an e-mail address with dots and hyphens', 'jo.x-y@scribe', ''],
    ['a user in a bare URL', 'https://u@scribe.example', ''],
    ['a bracket', '(@scribe)', 'scribe'],
    ['a comma', 'Hi,@scribe:', 'scribe'],
    ['an ellipsis', '…@scribe', 'scribe'],
    ['a digit', 'room 5@scribe', ''],
    ['an underscore', 'my_@scribe', ''],
    ['an e-mail address in quotes', '"jo@scribe" and <jo@scribe>', ''],
    ['an e-mail address as link text', '[jo@scribe](mailto:jo@scribe.example)', ''],
    ['an accented Latin letter, composed', 'niñ@scribe'.normalize('NFC'), ''],
    ['an accented Latin letter, decomposed', 'niñ@scribe'.normalize('NFD'), ''],
    ['a Latin letter with marks that never compose', 'x\u0303\u0331@scribe', ''],
    ['a full-width Latin letter', 'ｎ@scribe', ''],
    ['a Latin letter in bold', 'ni**ñ**@scribe', ''],
    ['a Chinese character', '感謝@scribe', 'scribe'],
    ['a Cyrillic letter', 'привет@scribe', 'scribe'],
    ['a keycap emoji', '1\uFE0F\u20E3@scribe', 'scribe'],
    ['another sign', '@@scribe', 'scribe'],
    ['nothing: the start of the text', '@scribe', 'scribe'],
    ['a line break: the end of the text', 'over to you\n@scribe', 'scribe'],
    ['an emoji', '🚀@scribe', 'scribe'],
  ])('%s', (_shows, text, expected) => expect(addressed(text, SCRIBE)).toBe(expected));
});

describe('the character after the name', () => {
  const roster = agents('sam', 'sammy');
  test.each([
    ['a longer name is a different name', '@sammy hi', 'sammy'],
    ['a comma ends it', '@sam, hi', 'sam'],
    ['case is ignored', '@SAM', 'sam'],
    ['a longer word is no agent', '@sammys', ''],
    ['a digit continues it', '@sam2', ''],
    ['an underscore continues it', '@sam_2', ''],
    ['a hyphen and a letter continue it', '@sam-east', ''],
    ['a hyphen and a letter of another script continue it', '@sam-物', ''],
    ['a hyphen alone ends it', '@sam - hi, @sammy-', 'sam sammy'],
    ['a combining mark continues it', '@sam\u0331', ''],
    ['another script ends it', '@samさん', 'sam'],
    ['a full stop ends it', '@sam.', 'sam'],
    ['an apostrophe ends it', "@sam's turn", 'sam'],
    ['a bracket, a colon, a question mark', '(@sam) @sammy: ok?', 'sam sammy'],
    ['an emoji ends it', '@sam🎉', 'sam'],
    ['a second sign ends it, and a letter precedes the second sign', '@sam@sammy', 'sam'],
    ['a sign alone is no agent', '@ sam @', ''],
  ])('%s', (_shows, text, expected) => expect(addressed(text, roster)).toBe(expected));
});

describe('a mention in code wakes no agent', () => {
  test.each([
    ['backtick fence', '```\n@scribe\n```', ''],
    ['tilde fence', '~~~ log\n@scribe\n~~~', ''],
    ['inline span', 'run `@scribe` now', ''],
    ['inline span with two backticks', 'run ``a ` @scribe`` now', ''],
    ['inline span over two lines', 'run `mail\n@scribe` now', ''],
    ['closed fence, then outside', '```\n@scribe\n```\n@scribe', 'scribe'],
    ['unclosed fence runs to the end', 'look:\n```\n@scribe\n\n@scribe', ''],
    ['unclosed tilde fence runs to the end', '~~~\na\n```\n@scribe', ''],
    ['fence with Windows line ends', '```\r\n@scribe\r\n```\r\nso', ''],
    ['fence in a list', '- a\n  ```\n  @scribe\n  ```', ''],
    ['fence that holds a quote mark', '```\n> a\n@scribe\n```', ''],
    ['indented block', 'log:\n\n    @scribe\n\tx @scribe', ''],
    ['an indented line of a paragraph is no code', 'so\n    @scribe', 'scribe'],
    ['a lone backtick is no code', 'a ` b @scribe', 'scribe'],
    ['text right after a span', '`x`@scribe', 'scribe'],
    ['a name cut by a span', '@scri`be`', ''],
  ])('%s', (_shows, text, expected) => expect(addressed(text, SCRIBE)).toBe(expected));
});

describe('a mention in a quoted line wakes no agent', () => {
  test.each([
    ['a quote', '> @scribe agreed', ''],
    ['a quote inside a quote', '> > @scribe\n> @scribe', ''],
    ['a quote in a list', '- > @scribe', ''],
    ['a list in a quote', '> - @scribe', ''],
    ['a quote right under text', 'you wrote\n> @scribe', ''],
    ['the answer under a quote, with a blank line', '> ask the scribe\n\n@scribe?', 'scribe'],
    ['the answer right under a quote', '> ask the scribe\n@scribe?', 'scribe'],
    ['the answer right under a quote in a list', '- > ask\n  @scribe?', 'scribe'],
    ['the answer right under a list that ends in a quote', '- > ask\n@scribe?', 'scribe'],
    ['an unclosed fence in a quote ends with the quote', '> ```\n> a\n@scribe', 'scribe'],
    ['a greater-than sign inside a line', 'a > b @scribe', 'scribe'],
  ])('%s', (_shows, text, expected) => expect(addressed(text, SCRIBE)).toBe(expected));
});

describe('other Markdown', () => {
  test.each([
    ['emphasis', '*@scribe* __now__', 'scribe'],
    ['strong', '**@scribe**', 'scribe'],
    ['emphasis by underscores', '_@scribe_', 'scribe'],
    ['emphasis that ends inside a word', '*@scribe*s', ''],
    ['struck out', '~~@scribe~~', 'scribe'],
    ['link text', '[ask @scribe](https://example.com)', 'scribe'],
    ['list item', '- one\n- @scribe', 'scribe'],
    ['numbered item', '1. @scribe', 'scribe'],
    ['task item', '- [ ] @scribe', 'scribe'],
    ['heading', '# @scribe', 'scribe'],
    ['underlined heading', '@scribe\n---', 'scribe'],
    ['table cell', '| who | what |\n|---|---|\n| @scribe | a |', 'scribe'],
    ['code in a table cell', '| who |\n|---|\n| `@scribe` |', ''],
    ['line of bars that is no table', '| @scribe | a |', 'scribe'],
    ['HTML is only text', '<b>@scribe</b>', 'scribe'],
    ['autolink', '<https://u@scribe.example> <https://x.example/@scribe>', ''],
    ['autolink without slashes', '<web:a/@scribe>', ''],
    ['e-mail autolink', '<jo@scribe.example>', ''],
    ['link destination and title', '[a](https://x.example/@scribe "@scribe")', ''],
    ['link definition', '[a]: https://x.example/@scribe "@scribe"\n\n[a]', ''],
    ['image', '![@scribe](https://x.example/@scribe)', ''],
    ['bare URL', 'see https://desk.example/tasks/@scribe/1?k=@scribe', ''],
    ['beside a bare URL', '(https://desk.example/)@scribe https://desk.example、@scribe', 'scribe'],
    ['escaped sign', '\\@scribe', ''],
    ['sign written as an entity', '&#64;scribe', ''],
  ])('%s', (_shows, text, expected) => expect(addressed(text, SCRIBE)).toBe(expected));

  test('a slug whose underscore was escaped still wakes', () => {
    expect(addressed('@night\\_scribe', agents('night_scribe'))).toBe('night_scribe');
  });
});

describe('names', () => {
  const roster = agents(['sam', 'Samuel'], ['smith', 'Sam Smith'], ['night', 'Night Scribe'], ['物語', '物語の人']);
  test.each([
    ['a name with a space', '@Night Scribe, please', 'night'],
    ['a name in another case', '@NIGHT scribe', 'night'],
    ['a name over a line break', '@Night\nScribe', 'night'],
    ['a name with more space than stored', '@Night \u00A0 Scribe', 'night'],
    ['a name inside emphasis', '**@Night Scribe**', 'night'],
    ['longest first', '@Sam Smith', 'smith'],
    ['the shorter one when the longer continues', '@Sam Smithson', 'sam'],
    ['the shorter one when the longer stops early', '@Sam Smi', 'sam'],
    ['no agent for the second half', '@Scribe', ''],
    ['the slug and the name of one agent are one mention', '@sam @Samuel', 'sam'],
    ['longest first in a script without spaces', '@物語の人', '物語'],
    ['a slug in a script without spaces', '@物語を読んで', '物語'],
    ['order of appearance', '@night then @Sam Smith then @sam then @night', 'night smith sam'],
    ['not across paragraphs', '@Night\n\nScribe', 'night'],
  ])('%s', (_shows, text, expected) => expect(addressed(text, roster)).toBe(expected));

  test('three mentions of an agent count as one', () => {
    expect(findMentions('@scribe @scribe\n\n- @Scribe', SCRIBE)).toEqual({ agentIds: ['scribe'] });
  });

  test('an empty roster or an empty text has no mention', () => {
    expect(findMentions('@scribe', [])).toEqual({ agentIds: [] });
    expect(findMentions('', SCRIBE)).toEqual({ agentIds: [] });
  });
});

describe('letters outside ASCII in the name', () => {
  test.each([
    ['an accented slug', '@stübner', 'stübner', 'stübner'],
    ['only the start of an accented slug', '@st', 'stübner', ''],
    ['stored composed, typed decomposed', '@rené'.normalize('NFD'), 'rené'.normalize('NFC'), 'rené'],
    ['stored decomposed, typed composed', '@RENÉ'.normalize('NFC'), 'rené'.normalize('NFD'), 'rené'.normalize('NFD')],
    ['an accent that the slug lacks', '@rené'.normalize('NFD'), 'rene', ''],
    ['the full-width sign counts as @', '＠scribe', 'scribe', 'scribe'],
    ['the full-width sign in an address', 'jo＠scribe', 'scribe', ''],
    ['full-width letters', '＠ｓｃｒｉｂｅ', 'scribe', 'scribe'],
    ['Cyrillic in another case', '@ИВАН', 'иван', 'иван'],
    ['sharp s and its capitals', '@STRASSE', 'straße', 'straße'],
    ['final sigma', '@ΝΙΚΟΣ', 'νικος', 'νικος'],
    ['final sigma before another script', '@ΝΙΚΟΣи', 'νικος', 'νικος'],
    ['half of a Hangul syllable', '@각', '가', ''],
    ['a typed look-alike', '@scrib\u0435', 'scribe', ''],
    ['a zero-width space in the name', '@scr\u200Bibe', 'scribe', ''],
  ])('%s', (_shows, text, slug, expected) => expect(addressed(text, agents(slug))).toBe(expected));
});

describe('hostile text', () => {
  const LENGTH = 32_000;
  const roster = Array.from({ length: 200 }, (_, i): Addressee => {
    const slug = `${'a'.repeat(60)}${i}`;
    return { agentId: slug, slug, name: `${'a '.repeat(36)}${i}` };
  });

  /** Characters read while parsing and matching: markdown-it and the name tree read text only by `charCodeAt`. */
  function countReads(text: string): number {
    const original = Object.getOwnPropertyDescriptor(String.prototype, 'charCodeAt')!;
    const charCodeAt = original.value as (this: string, at: number) => number;
    let reads = 0;
    Object.defineProperty(String.prototype, 'charCodeAt', {
      ...original,
      value(this: string, at: number) {
        reads++;
        return charCodeAt.call(this, at);
      },
    });
    try {
      findMentions(text, roster);
    } finally {
      Object.defineProperty(String.prototype, 'charCodeAt', original);
    }
    return reads;
  }

  test.each([
    '@',
    `@${'a'.repeat(59)}`,
    '@a ',
    '`',
    '``` ',
    '[',
    '![',
    '[](',
    '[a][',
    '![[]()',
    '[a](b "',
    '>',
    '> a\n',
    '> a\nb\n',
    '- ',
    '- a\n',
    '>- ',
    '*a **a ',
    '_a __a_ ',
    '**x',
    '~~a ',
    '&',
    '&#64;',
    '<',
    '<a:',
    '<a@b',
    '|',
    'a|b\n-|-\n',
    '[a]: b\n',
    "[a]: b 'x\n",
    '\\',
    '\\@',
    '\n',
    '\t',
    'a.a.',
    'a://',
    'a\u0301',
    '\u0301',
    '\uFDFA',
    '\uD800',
    '\0',
  ])('%j over and over is read in proportion to its length', (piece) => {
    // An unread text would pass the test: the sign at the end makes parsing start.
    const text = `${piece.repeat(LENGTH / piece.length).slice(0, LENGTH - 2)} @`;
    const reads = countReads(text);
    expect(reads).toBeGreaterThan(0);
    // The worst text, nested brackets, takes 222 reads per character, bounded by markdown-it's nesting limit. A reader that
    // reads the text again for every piece takes thousands.
    expect(reads).toBeLessThan(500 * LENGTH);
  });

  test('the cost of the roster depends on the length of its names, not on the number of signs', () => {
    const text = `@${'a'.repeat(59)} `.repeat(500);
    expect(countReads(text)).toBeLessThan(20 * text.length + 2 * 200 * 80);
  });

  test('a mention beyond the deepest nesting neither wakes nor fails', () => {
    expect(addressed(`${'>'.repeat(500)} @scribe`, SCRIBE)).toBe('');
    expect(addressed(`${'['.repeat(500)} @scribe`, SCRIBE)).toBe('scribe');
  });
});
