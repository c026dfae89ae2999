// What no input may hold, whatever its schema says: NUL and unpaired surrogates, which Postgres refuses in every text
// and jsonb; and the names that would reach an object's prototype.

import { isPlainName, Problem, toPointer, type Place } from './problems';

/** Deeper than any schema, far shallower than what a recursive reader could trip over. */
const DEPTH_LIMIT = 32;

/** More than any body of the API has. A megabyte of single digits would give a schema half a million faults to describe. */
const VALUES_LIMIT = 50_000;

const PROTOTYPE_KEYS: ReadonlySet<string> = new Set(['__proto__', 'constructor', 'prototype']);

/** Answers with 400 when the text holds a character that no stored text may hold. */
export function assertStorable(text: string, place: Place): void {
  // With the u flag a pair is one character, and only what has no partner is a surrogate.
  const found = /\0|\p{Surrogate}/u.exec(text)?.[0];
  if (found === undefined) return;
  throw new Problem('invalid_input', found === '\0' ? 'a NUL character' : 'an unpaired surrogate', { place });
}

/** Answers with 400 when a parsed body holds, at any depth, what no body may hold. */
export function assertCleanJson(body: unknown): void {
  assertClean(body, [], { left: VALUES_LIMIT });
}

function assertClean(value: unknown, path: (string | number)[], count: { left: number }): void {
  count.left -= 1;
  if (count.left < 0) throw new Problem('invalid_input', `more than ${VALUES_LIMIT} values`);
  if (typeof value === 'string') {
    assertStorable(value, { pointer: toPointer(path) });
    return;
  }
  if (value === null || typeof value !== 'object') return;
  if (path.length >= DEPTH_LIMIT) {
    throw new Problem('invalid_input', `nested deeper than ${DEPTH_LIMIT}`, { place: { pointer: toPointer(path) } });
  }
  const check = (key: string | number, inner: unknown): void => {
    path.push(key);
    assertClean(inner, path, count);
    path.pop();
  };
  if (Array.isArray(value)) {
    value.forEach((inner, index) => check(index, inner));
    return;
  }
  for (const [key, inner] of Object.entries(value)) {
    const place = { pointer: toPointer(path) };
    if (PROTOTYPE_KEYS.has(key)) throw new Problem('invalid_input', 'a field of this name is not accepted', { place });
    assertStorable(key, place);
    check(key, inner);
  }
}

/**
 * A URL's query, its escapes decoded strictly, each parameter once.
 * Answers with 400 for an escape that is no text, or a parameter given twice.
 */
export function readQuery(url: string): Record<string, string> {
  const query: Record<string, string> = Object.create(null) as Record<string, string>;
  const from = url.indexOf('?');
  if (from < 0) return query;
  for (const pair of url.slice(from + 1).split('&')) {
    if (pair === '') continue;
    const equals = pair.indexOf('=');
    const name = decode(equals < 0 ? pair : pair.slice(0, equals), 'query');
    const value = equals < 0 ? '' : decode(pair.slice(equals + 1), 'query');
    assertStorable(name, { parameter: 'query' });
    const place = { parameter: isPlainName(name) ? name : 'query' };
    if (PROTOTYPE_KEYS.has(name)) throw new Problem('invalid_input', 'unknown parameter', { place });
    if (name in query) throw new Problem('invalid_input', 'a parameter given twice', { place });
    assertStorable(value, place);
    query[name] = value;
  }
  return query;
}

/** Answers with 400 when a URL's path holds an escape that is no text, or a character that no id holds. */
export function assertReadablePath(path: string): void {
  assertStorable(decode(path, 'path'), { parameter: 'path' });
}

function decode(text: string, parameter: string): string {
  let decoded: string;
  try {
    decoded = decodeURIComponent(parameter === 'query' ? text.replaceAll('+', ' ') : text);
  } catch {
    throw new Problem('invalid_input', 'an escape that is not UTF-8', { place: { parameter } });
  }
  return decoded;
}
