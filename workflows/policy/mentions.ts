// Who a message addresses, and what agents and rooms may be called. Pure: no SQL, no clock.
// The callers of this folder turn the ids into wakes (`wakes.ts`) and the fold into a unique column.

import { confusablesMap } from 'confusables';
import MarkdownIt from 'markdown-it';

/** Most characters (Unicode code points) of a slug. */
export const SLUG_LIMIT = 64;
/** Most characters (Unicode code points) of a name, white space at its ends not counted. */
export const NAME_LIMIT = 80;

/**
 * A slug: 1 to 64 lower-case letters (with their marks) and digits of any script, with single hyphens or underscores
 * between. 〇 is the zero of Chinese and Japanese numerals, which Unicode counts as no digit. Letters that draw nothing
 * (Hangul fillers) are out.
 */
export const SLUG_PATTERN =
  /^(?=.{1,64}$)(?!.*\p{Default_Ignorable_Code_Point})[\p{Ll}\p{Lm}\p{Lo}\p{Nd}〇][\p{Mn}\p{Mc}]*(?:[-_]?[\p{Ll}\p{Lm}\p{Lo}\p{Nd}〇][\p{Mn}\p{Mc}]*)*$/u;

/** True when the slug fits `SLUG_PATTERN` and is stored composed (NFC), so that one slug has one spelling. */
export function isValidSlug(slug: string): boolean {
  return SLUG_PATTERN.test(slug) && slug === slug.normalize('NFC');
}

/**
 * A valid slug made of the name's own letters and digits, the same for the same name, or null when it has none (🚀, ---).
 * Different names may still end on one slug ("A+B", "A B"): the roster's unique column answers that with 409.
 */
export function slugFromName(name: string): string | null {
  const dashed = name
    .normalize('NFKC')
    .toLowerCase()
    .replace(INVISIBLE, '')
    .replace(/[^\p{Ll}\p{Lm}\p{Lo}\p{Nd}\p{Mn}\p{Mc}〇]+/gu, '-')
    // A mark with no letter before it, at the start or after a hyphen, belongs to something that was dropped.
    .replace(/(^|-)[\p{M}-]+/gu, '$1')
    .normalize('NFC');
  const slug = Array.from(dashed).slice(0, SLUG_LIMIT).join('').replace(/-$/, '');
  return isValidSlug(slug) ? slug : null;
}

/**
 * True when the name, trimmed, has 1 to 80 characters, at least one of them a letter or digit that can be seen, and no
 * `@`, line break, control character, unpaired surrogate or override of the writing direction.
 */
export function isValidName(name: string): boolean {
  const trimmed = name.trim();
  // A code point has at most two units: the first comparison spares the count for a very long name.
  if (trimmed.length > 2 * NAME_LIMIT || Array.from(trimmed).length > NAME_LIMIT) return false;
  if (/[\p{Cc}\p{Cs}\u2028\u2029\u202A-\u202E\u2066-\u2069]/u.test(name)) return false;
  const folded = trimmed.normalize('NFKC');
  // One ﷺ folds to 18 letters: without a bound the key could outgrow Postgres's index row (2,704 bytes).
  if (folded.length > 4 * NAME_LIMIT) return false;
  // Every sign that a mention could start with folds to this one.
  if (folded.includes('@')) return false;
  return /[\p{L}\p{N}]/u.test(trimmed.replace(INVISIBLE, ''));
}

/** What draws nothing: zero-width and direction characters, joiners, selectors, fillers, and the blank Braille cell. */
const INVISIBLE = /[\p{Default_Ignorable_Code_Point}\p{Cf}\u2800]/gu;

/**
 * The letters that pass for a Latin one. `confusables` says which one, but it also folds letters that nobody would
 * misread (и as n, 山 as w, é as e), which would refuse honest names: its word is taken for these alone. They are those
 * on which it agrees with Unicode's own list (UTS #39), and their other case. Of four scripts whose letters were drawn
 * after other alphabets it's taken whole. Last come the phonetic letters and small capitals.
 */
const LOOK_ALIKE = new RegExp(
  '[АаВвЕеСсНнһІіЈјКкМмОоРрЅѕТтХхУуҮүѴѵԁԌԛԜԝӀӏ' +
    'ΑαΒΕεΖΗηΙιͿϳΚκΜΝνΟοσςΡρΤτΥυΧχγϺϜ' +
    'ցհոսօՕՏՍզ' +
    '\\p{Script=Cherokee}\\p{Script=Coptic}\\p{Script=Deseret}\\p{Script=Lisu}' +
    'ɑɡıɩɪʏʋᴀʙᴄᴅᴇɢʜᴊᴋʟᴍɴᴏᴘʀꜱᴛᴜᴠᴡᴢ]',
  'u',
);

/** What passes for each other in any script's company, once case is folded: l, I, 1 and |, o and 0, dashes, apostrophes. */
const PLAIN_LOOK_ALIKES: readonly (readonly [RegExp, string])[] = [
  // A second dot over i or j is drawn over the first.
  [/([ij])\u0307+/gu, '$1'],
  [/[i1|ǀ]/gu, 'l'],
  [/0/gu, 'o'],
  [/[\p{Pd}−]/gu, '-'],
  [/[‘’‛ʹʻʼʽˈ′`´]/gu, "'"],
];

/**
 * The key under which slugs and names are unique on a roster: two that a reader could take for each other have one key.
 * Only for comparing: it isn't readable, may be empty, and its rules may not change without folding every row again.
 */
export function foldName(name: string): string {
  // NFKC would turn the lunate sigma, a perfect c, into an ordinary sigma.
  const decomposed = name.replace(INVISIBLE, '').replace(/[ϲϹ]/gu, 'c').normalize('NFKD');
  let key = foldCase(foldLookAlikes(decomposed));
  for (const [alike, one] of PLAIN_LOOK_ALIKES) key = key.replace(alike, one);
  return collapseSpace(key.normalize('NFKC'));
}

/** `decomposed` with letters that pass for Latin ones replaced; accents stay, since they are seen (é isn't e). */
function foldLookAlikes(decomposed: string): string {
  return decomposed.replace(/[\p{L}\p{M}\p{N}]+/gu, (word) => {
    // Greek ν passes for v but its capital Ν for N. Beside Latin letters the case typed is what deceives; a word without
    // any is folded by its capitals, so that ΝΙΚΟΣ and νικος stay one name.
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

/** `text` without case. Through upper case, so that ß meets SS; one sigma, so that a letter never depends on the next. */
function foldCase(text: string): string {
  return text.toUpperCase().toLowerCase().replaceAll('ς', 'σ');
}

function collapseSpace(text: string): string {
  return text.replace(/\s+/gu, ' ').trim();
}

/** The form in which typed mentions meet slugs and names. Look-alikes stay apart: a deceptive spelling needn't wake. */
function foldTyped(text: string): string {
  return foldCase(text.normalize('NFKC')).normalize('NFKC');
}

/** What an agent on the roster can be addressed by. */
export interface Addressee {
  readonly agentId: string;
  readonly slug: string;
  readonly name: string;
}

/**
 * The agents that `text` addresses by `@slug` or `@Name`, in order of first appearance, each once. At each sign the
 * longest slug or name wins. The full-width ＠ counts as @. An escaped sign (`\@scribe`) is only a letter.
 * Takes time in proportion to the text and the roster, whatever they hold.
 */
export function findMentions(text: string, roster: readonly Addressee[]): { agentIds: string[] } {
  const found = new Set<string>();
  // Parsing is the dear part, and most messages have no sign at all.
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
 * A sign that no Latin letter (with its marks), digit or underscore stands before: those make it part of an address.
 *
 * The sign comes first and is looked behind afterwards. The other way round, the look behind is made at every place where V8
 * does not optimise, as in a process that has compiled very many expressions: a row of marks then costs its square.
 */
const SIGN = /@(?<!(?:\p{Script=Latin}\p{M}*|[\p{Nd}_])@)/gu;
/** What makes the name before it only the start of a longer word. Other scripts don't: they write without spaces. */
const GOES_ON = /[\p{Script=Latin}\p{Nd}_\p{M}]|-[\p{L}\p{N}]/uy;

/** No name holds the sign, so the walk from one sign never passes the next, and all walks together pass `folded` once. */
function* scanProse(folded: string, names: NameNode): Generator<string> {
  for (const { index } of folded.matchAll(SIGN)) {
    let longest: string | undefined;
    let node: NameNode | undefined = names;
    for (let at = index + 1; node !== undefined; at++) {
      if (node.agentId !== undefined) {
        GOES_ON.lastIndex = at;
        if (!GOES_ON.test(folded)) longest = node.agentId;
      }
      node = node.next.get(folded.charCodeAt(at));
    }
    if (longest !== undefined) yield longest;
  }
}

/** Stands for what isn't prose: neither a letter nor white space, so that nothing is read across it. */
const BARRIER = '\uFFFC';

/** An address with a scheme, up to the first character that can't be, or seldom is, in one. Its signs address nobody. */
const BARE_URL = /\b[A-Za-z][A-Za-z0-9+.-]{1,30}:\/\/[^\s()[\]{}<>"'`,;|\u0080-\uFFFF]*/g;

const markdown = new MarkdownIt({ html: false, linkify: false, typographer: false })
  // Joining would hide which signs were escaped.
  .disable('text_join');
// Markdown lets a quote's last paragraph run on over lines without `>`. In a room the line under a quote is the answer to
// it, so every line without `>` ends the quote. Asked by the quote's rule alone; as a block of its own it's never met.
markdown.block.ruler.push('quote_ends', (_state, _startLine, _endLine, silent) => silent, { alt: ['blockquote'] });

/** The text of each paragraph, heading, list item and table cell, less code, quotes, images and addresses. */
function* readProse(text: string): Generator<string> {
  let quotes = 0;
  for (const block of markdown.parse(text, {})) {
    if (block.type === 'blockquote_open') quotes++;
    else if (block.type === 'blockquote_close') quotes--;
    else if (block.type === 'inline' && quotes === 0) yield readInline(block.children ?? []).replace(BARE_URL, BARRIER);
  }
}

type Token = ReturnType<typeof markdown.parse>[number];

/** The pieces joined as a reader sees them, so that `ni**ñ**@scribe` is still one word. */
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
