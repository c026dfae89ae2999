// Slugs and names on a roster: folding, conflicts and valid forms.

import { setFlagsFromString } from 'node:v8';
import { foldName, isValidName, isValidSlug, SLUG_PATTERN, slugFromName } from '../../workflows/policy/mentions';

// V8 stops optimising regular expressions in a process that has compiled very many of them. The time must be proportional to
// the text there too, so the tests run in that worst state.
beforeAll(() => setFlagsFromString('--no-regexp-optimization'));
afterAll(() => setFlagsFromString('--regexp-optimization'));

describe('one key on a roster', () => {
  test.each([
    ['a Cyrillic last letter', 'scribe', 'scrib\u0435'],
    ['a zero-width space inside', 'scribe', 'scr\u200Bibe'],
    ['a trailing space and a capital', 'scribe', 'Scribe '],
    ['composed and decomposed', 'René'.normalize('NFC'), 'rené'.normalize('NFD')],
    ['a Greek omicron', 'tomorrow', 't\u03BFmorrow'],
    ['a Greek capital that resembles another letter than its small form does', 'Night', '\u039Dight'],
    ['a small Greek letter that resembles another letter than its capital does', 'vova', '\u03BDova'],
    ['a whole word in Cyrillic', 'caxap', 'сахар'],
    ['Cyrillic capitals', 'BETA', 'ВЕТА'],
    ['an accent on a look-alike', 'café', 'caf\u0435\u0301'],
    ['a lunate sigma', 'scribe', 's\u03F2ribe'],
    ['a lunate sigma among Cyrillic letters', 'caxap', '\u03F2ахар'],
    ['a capital lunate sigma', 'Clara', '\u03F9lara'],
    ['full-width letters', 'scribe', 'ｓｃｒｉｂｅ'],
    ['mathematical letters', 'scribe', '𝐬𝐜𝐫𝐢𝐛𝐞'],
    ['small capitals', 'scribe', 'ꜱᴄʀɪʙᴇ'],
    ['Cherokee letters', 'DWARF', 'ᎠᎳARF'],
    ['a dotless i', 'scribe', 'scr\u0131be'],
    ['a second dot on an i', 'scribe', 'scri\u0307be'],
    ['a capital I for an l', 'paypal', 'paypaI'],
    ['a Cyrillic capital I', 'Ivan', '\u0406van'],
    ['one for l, nought for o', 'scribe-lo', 'scribe-10'],
    ['a soft hyphen, a joiner and a selector', 'scribe', 's\u00ADcr\u200Dibe\uFE0F'],
    ['a direction override', 'scribe', '\u202Escribe'],
    ['a Hangul filler', 'scribe', 'scribe\u3164'],
    ['white space of another width', 'Night Scribe', ' night\u2003\u00A0scribe'],
    ['another dash', 'a-b', 'a\u2011b'],
    ['another apostrophe', "O'Brien", 'O\u2019Brien'],
    ['Cyrillic in another case', 'Иван', 'ИВАН'],
    ['Greek in another case', 'Νίκος', 'ΝΊΚΟΣ'],
    ['sharp s and its capitals', 'straße', 'STRASSE'],
  ])('%s', (_shows, one, other) => expect(foldName(other)).toBe(foldName(one)));

  test.each([
    ['an accent', 'Rene', 'René'],
    ['an umlaut', 'stubner', 'stübner'],
    ['another word', 'sam', 'sammy'],
    ['a space inside', 'Sam Smith', 'SamSmith'],
    ['Cyrillic names', 'Лина', 'Нина'],
    ['Cyrillic names with letters that are drawn alike by few', 'Полина', 'Долина'],
    ['Chinese names', '七山', '下山'],
    ['Thai names', 'นก', 'ยก'],
    ['Hebrew names', 'רן', 'רו'],
    ['numbered names', 'agent-1', 'agent-2'],
  ])('apart: %s', (_shows, one, other) => expect(foldName(other)).not.toBe(foldName(one)));

  test('folding a key again changes nothing', () => {
    for (const name of ['Scribe ', 'Νίκος', '\u0406van', 'straße', 'İ', 'ﬁ', '物語', 'O\u2019Brien', '𝐬ν']) {
      expect(foldName(foldName(name))).toBe(foldName(name));
    }
  });
});

describe('slugs', () => {
  test.each([
    'scribe',
    'stübner',
    '物語',
    'иван',
    'a',
    '7',
    'night-scribe',
    'night_scribe',
    'हिन्दी',
    '二〇二六',
    'x'.repeat(64),
  ])('%j is one', (slug) => expect(isValidSlug(slug)).toBe(true));

  test.each([
    ['empty', ''],
    ['65 characters', 'x'.repeat(65)],
    ['5 kB', 'x-'.repeat(2500)],
    ['a capital', 'Scribe'],
    ['a sign', '@scribe'],
    ['a space', 'night scribe'],
    ['a line break at the end', 'scribe\n'],
    ['a hyphen first', '-scribe'],
    ['a hyphen last', 'scribe-'],
    ['two hyphens', 'night--scribe'],
    ['a mark first', '\u0301a'],
    ['decomposed', 'rené'.normalize('NFD')],
    ['a zero-width space', 'scr\u200Bibe'],
    ['a filler', 'scribe\u3164'],
    ['an emoji', '🚀'],
    ['a dot', 'a.b'],
    ['a slash', 'a/b'],
    ['NUL', 'a\0'],
    ['half a surrogate pair', 'a\uD800'],
  ])('%s is none', (_shows, slug) => expect(isValidSlug(slug)).toBe(false));

  test('the length counts characters, not UTF-16 code units', () => {
    expect(SLUG_PATTERN.test('𠮷'.repeat(64))).toBe(true);
    expect(SLUG_PATTERN.test('𠮷'.repeat(65))).toBe(false);
  });

  test.each([
    ['Chinese', '物語', '物語'],
    ['Cyrillic', 'Иван', 'иван'],
    ['Cyrillic', 'Ольга', 'ольга'],
    ['an emoji alone', '🚀', null],
    ['hyphens alone', '---', null],
    ['spaces and capitals', '  Night   Scribe! ', 'night-scribe'],
    ['accents, decomposed', 'René Ünal'.normalize('NFD'), 'rené-ünal'.normalize('NFC')],
    ['full-width letters', 'Ｒｏｏｍ　７', 'room-7'],
    ['vowel signs', 'हिन्दी', 'हिन्दी'],
    ['an emoji beside a word', '🚀 Launch 🚀', 'launch'],
    ['a keycap emoji', '1\uFE0F\u20E3 first', '1-first'],
    ['zero-width characters', 'scr\u200Bibe', 'scribe'],
    ['marks alone', '\u0301\u0301', null],
    ['empty', '', null],
    ['cut without a hyphen at its end', `${'x'.repeat(63)} y`, 'x'.repeat(63)],
  ])('from a name: %s', (_shows, name, slug) => {
    expect(slugFromName(name)).toBe(slug);
    if (slug !== null) expect(isValidSlug(slug)).toBe(true);
  });
});

describe('valid names', () => {
  test.each([
    'Scribe',
    'Night Scribe',
    '物語',
    'R2',
    "O'Brien (EU)",
    ' padded ',
    'é'.repeat(80),
    '🚀 Launch',
    '𠮷'.repeat(80),
  ])('%j is one', (name) => expect(isValidName(name)).toBe(true));

  test.each([
    ['empty', ''],
    ['only spaces', '   '],
    ['81 characters', 'x'.repeat(81)],
    ['5 kB', 'x'.repeat(5000)],
    ['80 letters that fold to 1,440', '\uFDFA'.repeat(80)],
    ['no letter or digit', '🚀 ---'],
    ['only a filler', '\u3164'],
    ['a sign', 'Scribe@Larkspur'],
    ['a full-width sign', 'Scribe＠Larkspur'],
    ['NUL', 'Scri\0be'],
    ['a line break', 'Scribe\nTwo'],
    ['a line separator', 'Scribe\u2028Two'],
    ['a tab', 'Scribe\tTwo'],
    ['an override of the writing direction', 'Scribe\u202E'],
    ['half a surrogate pair', 'Scribe\uD83D'],
  ])('%s is none', (_shows, name) => expect(isValidName(name)).toBe(false));
});
