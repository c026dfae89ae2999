// Finds words that the style guide avoids, in comments, strings, JSX text and Markdown. Identifiers, regular expressions,
// tagged templates (SQL), import paths and code in backticks are not prose and are not searched.
//
//   node test/lint/words.js [--count] [path prefix…]
//
// A comment `word-lint: <reason>` allows the words of its own line and of the next line.

'use strict';

const { execFileSync } = require('node:child_process');
const { readFileSync } = require('node:fs');
const { parse } = require('@babel/parser');

/** Each pattern with its replacement. A space in a pattern also matches a line break inside a comment. */
const RULES = [
  ['whoever', 'name the role: the caller, the reader, an admin'],
  ['nobody|somebody', 'name the role, or use the passive: "no agent is woken"'],
  ['anew', 'again'],
  ['stands?|standing|stood|stand-ins?', 'is, means, replaces, remains; a noun: state, backlog, substitute'],
  ['said|says', 'the message is, reports, states, names'],
  ['told|tells', 'receives, reports, shows, informs'],
  ['mend(?:s|ed|ing)?', 'fix, correct, repair'],
  ['doors?', 'API, transport, endpoint, by meaning'],
  ['a yes', 'an approval'],
  ['(?:comes?|came|coming) about', 'happens, is created'],
  ['(?:goes|go|went|going) on', 'continues'],
  // "as long as it is open" is a usual clause.
  ['(?<!\\bas \\w+ )as it is', 'unchanged, in its current form'],
  ['in sight of', 'visible to, near'],
];

const BEFORE = '(?<![\\w$./-])';
const AFTER = '(?![\\w$(]|[-.]\\w)';
const patterns = RULES.map(([source, suggestion]) => ({
  regex: new RegExp(BEFORE + `(?:${source})`.replaceAll(' ', '(?:\\s|//|\\*|>)+') + AFTER, 'gi'),
  suggestion,
}));

/** @returns {{ line: number, column: number, word: string, suggestion: string }[]} in the order of the text */
function findWords(path, text) {
  const prose = path.endsWith('.md') ? markdownProse(text) : codeProse(path, text);
  const allowed = allowedLines(text);
  const lineStarts = [0];
  for (const { index } of text.matchAll(/\n/g)) lineStarts.push(index + 1);
  const found = [];
  for (const { regex, suggestion } of patterns) {
    for (const match of prose.matchAll(regex)) {
      const line = lineStarts.findLastIndex((start) => start <= match.index);
      if (allowed.has(line)) continue;
      const word = match[0].replace(/[\s/*>]+/g, ' ');
      found.push({ line: line + 1, column: match.index - lineStarts[line] + 1, word, suggestion });
    }
  }
  return found.sort((a, b) => a.line - b.line || a.column - b.column);
}

function allowedLines(text) {
  const lines = new Set();
  for (const [index, line] of text.split('\n').entries()) {
    if (/(?:\/\/|\/\*|<!--).*\bword-lint: \w+/.test(line)) lines.add(index).add(index + 1);
  }
  return lines;
}

/** Replaces everything except the spans with a character that no pattern matches. Offsets do not change. */
function keepOnly(text, spans) {
  let kept = '';
  let end = 0;
  for (const span of spans.toSorted((a, b) => a.start - b.start)) {
    kept += blank(text.slice(end, span.start)) + span.text;
    end = span.start + span.text.length;
  }
  return kept + blank(text.slice(end));
}

const blank = (text) => text.replace(/[^\n]/g, '\0');

/** Replaces code in backticks with a blank of the same length. */
const withoutCode = (text) => text.replace(/`[^`\n]+`/g, blank);

function parseCode(path, text) {
  const plugins = ['estree', 'typescript', ...(path.endsWith('.ts') ? [] : ['jsx'])];
  try {
    return parse(text, { sourceType: 'unambiguous', attachComment: false, plugins });
  } catch (error) {
    throw new Error(`${path} does not parse: ${error.message}`, { cause: error });
  }
}

function codeProse(path, text) {
  const { program, comments } = parseCode(path, text);
  const spans = joinLines(comments, text).map(({ start, end }) => ({
    start,
    text: withoutCode(text.slice(start, end)),
  }));
  collectStrings(program, text, spans);
  return keepOnly(text, spans);
}

/** Joins line comments on consecutive lines, because a phrase can span several lines. */
function joinLines(comments, text) {
  const joined = [];
  for (const { type, start, end } of comments) {
    const last = joined.at(-1);
    if (type === 'CommentLine' && last?.type === 'CommentLine' && /^\s*$/.test(text.slice(last.end, start)))
      last.end = end;
    else joined.push({ type, start, end });
  }
  return joined;
}

const NOT_PROSE = new Set([
  'TaggedTemplateExpression',
  'ImportDeclaration',
  'ExportAllDeclaration',
  'ImportExpression',
]);

function collectStrings(node, text, spans) {
  if (Array.isArray(node)) {
    for (const each of node) collectStrings(each, text, spans);
    return;
  }
  if (node === null || typeof node !== 'object') return;
  if (NOT_PROSE.has(node.type)) {
    // The values between the parts of a tagged template are ordinary expressions.
    if (node.quasi !== undefined) collectStrings(node.quasi.expressions, text, spans);
    return;
  }
  const isText =
    (node.type === 'Literal' && typeof node.value === 'string') ||
    node.type === 'TemplateElement' ||
    node.type === 'JSXText';
  if (isText) {
    const raw = text.slice(node.start, node.end);
    // The letter of an escape such as \n must not join the word after it.
    spans.push({ start: node.start, text: withoutCode(raw.replace(/\\(?!\n)./g, '  ')) });
    return;
  }
  for (const key in node) if (key !== 'source') collectStrings(node[key], text, spans);
}

/** Ignores code blocks, except shell and plain text blocks. */
function markdownProse(text) {
  let fence = null;
  const lines = text.split('\n').map((line) => {
    const mark = /^\s*(`{3,}|~{3,})\s*(\w*)/.exec(line);
    if (mark !== null && (fence === null || mark[2] === '')) {
      fence = fence === null ? { prose: ['', 'text', 'sh', 'bash', 'console', 'mermaid'].includes(mark[2]) } : null;
      return blank(line);
    }
    if (fence !== null) return fence.prose ? line : blank(line);
    return withoutCode(line).replace(/\]\([^)]*\)/g, blank);
  });
  return lines.join('\n');
}

const CODE = /^(?:workflows|activities|prisma|api|worker|test|bench|examples|client)\/.*\.(?:ts|tsx|js)$/;
const OWN = new Set(['test/lint/words.js', 'test/unit/word-lint.test.ts']);

function main(args) {
  const prefixes = args.filter((arg) => !arg.startsWith('--'));
  const tracked = execFileSync('git', ['ls-files', '-z'], { encoding: 'utf8' }).split('\0');
  const paths = tracked.filter(
    (path) =>
      (CODE.test(path) || path.endsWith('.md')) &&
      !path.includes('/generated/') &&
      !OWN.has(path) &&
      (prefixes.length === 0 || prefixes.some((prefix) => path.startsWith(prefix))),
  );
  const counts = new Map();
  let total = 0;
  for (const path of paths) {
    const found = findWords(path, readFileSync(path, 'utf8'));
    if (found.length === 0) continue;
    total += found.length;
    const folder = path.split('/').slice(0, -1).slice(0, 2).join('/') || '.';
    counts.set(folder, (counts.get(folder) ?? 0) + found.length);
    if (args.includes('--count')) continue;
    for (const { line, column, word, suggestion } of found) {
      console.log(`${path}:${line}:${column} "${word}": ${suggestion}`);
    }
  }
  for (const [folder, count] of counts)
    if (args.includes('--count')) console.log(`${String(count).padStart(5)} ${folder}`);
  if (total > 0) console.log(`${total} words to replace`);
  process.exitCode = total > 0 ? 1 : 0;
}

module.exports = { findWords };
if (require.main === module) main(process.argv.slice(2));
