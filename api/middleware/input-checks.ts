// Checks that apply to all input, before its schema: no NUL and no unpaired surrogates, which Postgres refuses in text
// and jsonb, and no field names that would reach an object's prototype.

import { isPlainName, Problem, toPointer, type Location } from '../problems';

/** Deeper than any schema, and far below the depth at which a recursive reader overflows its stack. */
const DEPTH_LIMIT = 32;

/** More than any valid body has. A megabyte of single digits would make a schema describe half a million faults. */
const VALUES_LIMIT = 50_000;

const PROTOTYPE_KEYS: ReadonlySet<string> = new Set(['__proto__', 'constructor', 'prototype']);

/** Answers with 400 when the text holds a character that Postgres cannot store. */
export function requireStorable(text: string, location: Location): void {
  // With the u flag a surrogate pair is one character, so the pattern finds only unpaired surrogates.
  const found = /\0|\p{Surrogate}/u.exec(text)?.[0];
  if (found === undefined) return;
  throw new Problem('invalid_input', found === '\0' ? 'a NUL character' : 'an unpaired surrogate', { location });
}

/** Answers with 400 when a parsed body holds forbidden text or names at any depth, or is too deep or too large. */
export function requireCleanJson(body: unknown): void {
  requireClean(body, [], { left: VALUES_LIMIT });
}

function requireClean(value: unknown, path: (string | number)[], count: { left: number }): void {
  count.left -= 1;
  if (count.left < 0) throw new Problem('invalid_input', `more than ${VALUES_LIMIT} values`);
  if (typeof value === 'string') {
    requireStorable(value, { pointer: toPointer(path) });
    return;
  }
  if (value === null || typeof value !== 'object') return;
  if (path.length >= DEPTH_LIMIT) {
    throw new Problem('invalid_input', `nested deeper than ${DEPTH_LIMIT}`, { location: { pointer: toPointer(path) } });
  }
  const check = (key: string | number, inner: unknown): void => {
    path.push(key);
    requireClean(inner, path, count);
    path.pop();
  };
  if (Array.isArray(value)) {
    value.forEach((inner, index) => check(index, inner));
    return;
  }
  for (const [key, inner] of Object.entries(value)) {
    const location = { pointer: toPointer(path) };
    if (PROTOTYPE_KEYS.has(key))
      throw new Problem('invalid_input', 'a field with this name is not accepted', { location });
    requireStorable(key, location);
    check(key, inner);
  }
}

/**
 * Reads the query of a URL. Answers with 400 for an escape that is not UTF-8, and for a parameter that appears twice.
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
    requireStorable(name, { parameter: 'query' });
    const location = { parameter: isPlainName(name) ? name : 'query' };
    if (PROTOTYPE_KEYS.has(name)) throw new Problem('invalid_input', 'unknown parameter', { location });
    if (name in query) throw new Problem('invalid_input', 'the parameter appears twice', { location });
    requireStorable(value, location);
    query[name] = value;
  }
  return query;
}

/** Answers with 400 when the path of a URL holds an escape that is not UTF-8, or text that Postgres cannot store. */
export function requireReadablePath(path: string): void {
  requireStorable(decode(path, 'path'), { parameter: 'path' });
}

function decode(text: string, parameter: string): string {
  let decoded: string;
  try {
    decoded = decodeURIComponent(parameter === 'query' ? text.replaceAll('+', ' ') : text);
  } catch {
    throw new Problem('invalid_input', 'an escape that is not UTF-8', { location: { parameter } });
  }
  return decoded;
}
