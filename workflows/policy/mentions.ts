// The agents that a message addresses, and the rules for names of agents and rooms. Pure. Callers create a wake for
// each agent, and store `foldName` in a unique column.

import { confusablesMap } from 'confusables';
import MarkdownIt from 'markdown-it';

/** Most characters (Unicode code points) of a slug. */
export const SLUG_LIMIT = 64;
/** Most characters (Unicode code points) of a name, without white space at its ends. */
export const NAME_LIMIT = 80;

/**
 * A slug: 1 to 64 lower-case letters (with their marks) and digits of any script, with single hyphens or underscores
 * between. 〇 is the zero of Chinese and Japanese numerals, which Unicode does not count as a digit. Invisible letters
 * (Hangul fillers) are excluded.
 */
export const SLUG_PATTERN =
  /^(?=.{1,64}$)(?!.*\p{Default_Ignorable_Code_Point})[\p{Ll}\p{Lm}\p{Lo}\p{Nd}〇][\p{Mn}\p{Mc}]*(?:[-_]?[\p{Ll}\p{Lm}\p{Lo}\p{Nd}〇][\p{Mn}\p{Mc}]*)*$/u;

/** True when the slug matches `SLUG_PATTERN` and is composed (NFC), so that a slug has only one spelling. */
export function isValidSlug(slug: string): boolean {
  return SLUG_PATTERN.test(slug) && slug === slug.normalize('NFC');
}

/**
 * A valid slug made of the letters and digits of a name, or null when the name has none (🚀, ---). Deterministic.
 * Different names may have the same slug ("A+B", "A B"): the unique column of the roster then causes a 409.
 */
export function slugFromName(name: string): string | null {
  const dashed = name
    .normalize('NFKC')
    .toLowerCase()
    .replace(INVISIBLE, '')
    .replace(/[^\p{Ll}\p{Lm}\p{Lo}\p{Nd}\p{Mn}\p{Mc}〇]+/gu, '-')
    // A mark at the start or after a hyphen belongs to a character that was removed.
    .replace(/(^|-)[\p{M}-]+/gu, '$1')
    .normalize('NFC');
  const slug = Array.from(dashed).slice(0, SLUG_LIMIT).join('').replace(/-$/, '');
  return isValidSlug(slug) ? slug : null;
}

/**
 * True when the trimmed name has 1 to 80 characters, at least one visible letter or digit, and no `@`, line break,
 * control character, unpaired surrogate or override of the writing direction.
 */
export function isValidName(name: string): boolean {
  const trimmed = name.trim();
  // A code point has at most two units, so the first comparison avoids the count for a very long name.
  if (trimmed.length > 2 * NAME_LIMIT || Array.from(trimmed).length > NAME_LIMIT) return false;
  if (/[\p{Cc}\p{Cs}\u2028\u2029\u202A-\u202E\u2066-\u2069]/u.test(name)) return false;
  const folded = trimmed.normalize('NFKC');
  // One ﷺ folds to 18 letters: without this limit the key could be longer than an index row of Postgres (2,704 bytes).
  if (folded.length > 4 * NAME_LIMIT) return false;
  // Every sign that can start a mention folds to `@`.
  if (folded.includes('@')) return false;
  return /[\p{L}\p{N}]/u.test(trimmed.replace(INVISIBLE, ''));
}

/**
 * Invisible characters: zero-width and direction characters, joiners, selectors, fillers, and the blank Braille cell.
 */
const INVISIBLE = /[\p{Default_Ignorable_Code_Point}\p{Cf}\u2800]/gu;

/**
 * The letters that look like a Latin letter. `confusables` also folds letters that are easy to distinguish (и as n, 山
 * as w, é as e), and would refuse honest names, so it is used for these letters only: the letters on which it agrees
 * with Unicode's list (UTS #39) and their other case, four scripts derived from other alphabets, phonetic letters, and
 * small capitals.
 */
const LOOK_ALIKE = new RegExp(
  '[АаВвЕеСсНнһІіЈјКкМмОоРрЅѕТтХхУуҮүѴѵԁԌԛԜԝӀӏ' +
    'ΑαΒΕεΖΗηΙιͿϳΚκΜΝνΟοσςΡρΤτΥυΧχγϺϜ' +
    'ցհոսօՕՏՍզ' +
    '\\p{Script=Cherokee}\\p{Script=Coptic}\\p{Script=Deseret}\\p{Script=Lisu}' +
    'ɑɡıɩɪʏʋᴀʙᴄᴅᴇɢʜᴊᴋʟᴍɴᴏᴘʀꜱᴛᴜᴠᴡᴢ]',
  'u',
);

/**
 * Characters that look alike beside letters of any script, after folding case: l, I, 1 and |, o and 0, dashes,
 * apostrophes.
 */
const PLAIN_LOOK_ALIKES: readonly (readonly [RegExp, string])[] = [
  // A second dot over i or j is drawn over the first.
  [/([ij])\u0307+/gu, '$1'],
  [/[i1|ǀ]/gu, 'l'],
  [/0/gu, 'o'],
  [/[\p{Pd}−]/gu, '-'],
  [/[‘’‛ʹʻʼʽˈ′`´]/gu, "'"],
];

/**
 * The key by which slugs and names are unique on a roster: two names that look alike have the same key. Only for
 * comparing: the key is not readable and may be empty. A change of these rules requires folding every stored row again.
 */
export function foldName(name: string): string {
  // NFKC would change the lunate sigma, which looks exactly like c, into an ordinary sigma.
  const decomposed = name.replace(INVISIBLE, '').replace(/[ϲϹ]/gu, 'c').normalize('NFKD');
  let key = foldCase(foldLookAlikes(decomposed));
  for (const [alike, one] of PLAIN_LOOK_ALIKES) key = key.replace(alike, one);
  return collapseSpace(key.normalize('NFKC'));
}

/** Replaces letters that look like Latin ones. Accents stay, because they are visible (é is not e). */
function foldLookAlikes(decomposed: string): string {
  return decomposed.replace(/[\p{L}\p{M}\p{N}]+/gu, (word) => {
    // Greek ν looks like v, but its capital Ν looks like N. In a word with Latin letters, the typed case counts. A word
    // without Latin letters is folded by its capitals, so that ΝΙΚΟΣ and νικος are the same name.
    const foreign = !/\p{Script=Latin}/u.test(word);
    return Array.from(word, (letter) => {
      const seen = foreign ? letter.toUpperCase() : letter;
      return latinFor(seen) ?? latinFor(seen.toLowerCase()) ?? latinFor(seen.toUpperCase()) ?? letter;
    }).join('');
  });
}

function latinFor(letter: string): string | undefined {
  return LOOK_ALIKE.test(letter) ? confusablesMap.get(letter) : undefined;
}

/**
 * Removes case. Through upper case, so that ß equals SS; with one sigma, so that no letter depends on the next letter.
 */
function foldCase(text: string): string {
  return text.toUpperCase().toLowerCase().replaceAll('ς', 'σ');
}

function collapseSpace(text: string): string {
  return text.replace(/\s+/gu, ' ').trim();
}

/**
 * The form in which mentions are compared with slugs and names. Look-alikes differ: a deceptive spelling wakes no
 * agent.
 */
function foldTyped(text: string): string {
  return foldCase(text.normalize('NFKC')).normalize('NFKC');
}

/** An agent on the roster, with the names that address it. */
export interface Addressee {
  readonly agentId: string;
  readonly slug: string;
  readonly name: string;
}

/**
 * The agents that `text` addresses by `@slug` or `@Name`, in order of first appearance, each once. At each sign, the
 * longest slug or name counts. The full-width ＠ counts as @. An escaped sign (`\@scribe`) is plain text. The time is
 * proportional to the length of the text and of the roster.
 */
export function findMentions(text: string, roster: readonly Addressee[]): { agentIds: string[] } {
  const found = new Set<string>();
  // Parsing is expensive, and most messages have no sign.
  if (/[@＠﹫]/u.test(text)) {
    const names = buildNameTree(roster);
    for (const prose of readProse(text)) {
      for (const agentId of scanProse(foldTyped(prose).replace(/\s+/gu, ' '), names)) found.add(agentId);
    }
  }
  return { agentIds: [...found] };
}

/** A prefix tree over folded slugs and names, keyed by UTF-16 unit. */
interface NameNode {
  readonly next: Map<number, NameNode>;
  agentId: string | undefined;
}

function buildNameTree(roster: readonly Addressee[]): NameNode {
  const root: NameNode = { next: new Map(), agentId: undefined };
  for (const { agentId, slug, name } of roster) {
    for (const key of [slug, name].map((called) => collapseSpace(foldTyped(called)))) {
      if (key === '') continue;
      let node = root;
      for (let i = 0; i < key.length; i++) {
        const unit = key.charCodeAt(i);
        let child = node.next.get(unit);
        if (child === undefined) node.next.set(unit, (child = { next: new Map(), agentId: undefined }));
        node = child;
      }
      node.agentId ??= agentId;
    }
  }
  return root;
}

/**
 * A sign without a Latin letter (with its marks), digit or underscore before it: those make it part of an address.
 *
 * The pattern has the sign first and the lookbehind second. In the other order, V8 may run the lookbehind at every
 * position, if the process has compiled very many expressions: the time then grows with the square of a sequence of
 * marks.
 */
const SIGN = /@(?<!(?:\p{Script=Latin}\p{M}*|[\p{Nd}_])@)/gu;
/** A character after a name that makes it the start of a longer word. Scripts without spaces are not included. */
const WORD_CONTINUES = /[\p{Script=Latin}\p{Nd}_\p{M}]|-[\p{L}\p{N}]/uy;

/** No name contains the sign, so the search from one sign ends before the next, and `folded` is read once in total. */
function* scanProse(folded: string, names: NameNode): Generator<string> {
  for (const { index } of folded.matchAll(SIGN)) {
    let longest: string | undefined;
    let node: NameNode | undefined = names;
    for (let at = index + 1; node !== undefined; at++) {
      if (node.agentId !== undefined) {
        WORD_CONTINUES.lastIndex = at;
        if (!WORD_CONTINUES.test(folded)) longest = node.agentId;
      }
      node = node.next.get(folded.charCodeAt(at));
    }
    if (longest !== undefined) yield longest;
  }
}

/** Replaces text that is not prose. Neither a letter nor white space, so no name matches across it. */
const BARRIER = '\uFFFC';

/** An address with a scheme, up to the first character that addresses rarely contain. Its signs address no agent. */
const BARE_URL = /\b[A-Za-z][A-Za-z0-9+.-]{1,30}:\/\/[^\s()[\]{}<>"'`,;|\u0080-\uFFFF]*/g;

const markdown = new MarkdownIt({ html: false, linkify: false, typographer: false })
  // Joined text would not show which signs were escaped.
  .disable('text_join');
// In Markdown, the last paragraph of a quote continues over lines without `>`. In a room, the line after a quote is the
// answer, so a line without `>` ends the quote. Only the rule of quotes uses this rule; it never matches a block.
markdown.block.ruler.push('quote_ends', (_state, _startLine, _endLine, silent) => silent, { alt: ['blockquote'] });

/** The text of each paragraph, heading, list item and table cell, without code, quotes, images and addresses. */
function* readProse(text: string): Generator<string> {
  let quotes = 0;
  for (const block of markdown.parse(text, {})) {
    if (block.type === 'blockquote_open') quotes++;
    else if (block.type === 'blockquote_close') quotes--;
    else if (block.type === 'inline' && quotes === 0) yield readInline(block.children ?? []).replace(BARE_URL, BARRIER);
  }
}

type Token = ReturnType<typeof markdown.parse>[number];

/** Joins the pieces as a reader sees them, so that `ni**ñ**@scribe` is one word. */
function readInline(pieces: readonly Token[]): string {
  let prose = '';
  let inAutolink = false;
  for (const piece of pieces) {
    if (piece.type === 'link_open') inAutolink = piece.info === 'auto';
    else if (piece.type === 'link_close') inAutolink = false;
    else if (inAutolink || piece.type === 'code_inline' || piece.type === 'image') prose += BARRIER;
    else if (piece.type === 'softbreak' || piece.type === 'hardbreak') prose += '\n';
    else if (piece.type === 'text_special' && piece.content === '@') prose += BARRIER;
    else prose += piece.content;
  }
  return prose;
}
