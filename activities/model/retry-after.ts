// The wait that a provider's headers name. Pure: the caller passes the time and decides what follows.

import { NAMED_WAIT_LIMIT_MS } from '../../workflows/contract';

export interface RetryHeaders {
  readonly retryAfterMs: string | null;
  readonly retryAfter: string | null;
}

/** The shortest wait: Temporal reads a delay of 0 as "do not retry". */
const SHORTEST_WAIT_MS = 1;
/** One year, so that the end of a wait fits every date type. */
const LONGEST_WAIT_MS = 365 * 24 * 60 * 60 * 1000;

/**
 * The wait that these headers name, in whole milliseconds and at least 1. Null: they name none that is readable.
 *
 * `retry-after-ms` is in no standard, and some servers send seconds in it. It has precedence only while it is short; a
 * longer value counts only without a readable `retry-after`.
 */
export function parseRetryAfter(headers: RetryHeaders, nowMs: number): number | null {
  const millis = parseDecimal(headers.retryAfterMs);
  if (millis !== null && millis <= NAMED_WAIT_LIMIT_MS) return toWait(millis);
  const named = parseSecondsOrDate(headers.retryAfter, nowMs) ?? millis;
  return named === null ? null : toWait(named);
}

function toWait(millis: number): number {
  return Math.min(Math.max(Math.ceil(millis), SHORTEST_WAIT_MS), LONGEST_WAIT_MS);
}

function parseSecondsOrDate(header: string | null, nowMs: number): number | null {
  const seconds = parseDecimal(header);
  if (seconds !== null) return seconds * 1000;
  const at = header === null ? null : parseHttpDate(header.trim());
  return at === null ? null : at - nowMs;
}

/** Plain decimal notation only: `Number` would also take "", "1e3", "0x10" and "Infinity". */
function parseDecimal(header: string | null): number | null {
  const text = header?.trim() ?? '';
  return /^\d+(\.\d+)?$/.test(text) ? Number(text) : null;
}

const MONTHS = ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec'];

// The three forms that RFC 9110 requires. `Date.parse` is not used: it reads "1" as a date.
const DATE_FORMS = [
  /^[A-Z][a-z]{2}, (?<day>\d{2}) (?<month>[A-Z][a-z]{2}) (?<year>\d{4}) (?<h>\d{2}):(?<m>\d{2}):(?<s>\d{2}) GMT$/,
  /^[A-Z][a-z]+day, (?<day>\d{2})-(?<month>[A-Z][a-z]{2})-(?<year>\d{2}) (?<h>\d{2}):(?<m>\d{2}):(?<s>\d{2}) GMT$/,
  /^[A-Z][a-z]{2} (?<month>[A-Z][a-z]{2}) (?<day>[ \d]\d) (?<h>\d{2}):(?<m>\d{2}):(?<s>\d{2}) (?<year>\d{4})$/,
];

function parseHttpDate(text: string): number | null {
  for (const form of DATE_FORMS) {
    const parts = form.exec(text)?.groups;
    if (parts === undefined) continue;
    const month = MONTHS.indexOf(parts.month ?? '');
    const day = Number(parts.day);
    const [hours, minutes, seconds] = [Number(parts.h), Number(parts.m), Number(parts.s)];
    // 60 is a leap second.
    if (month < 0 || hours > 23 || minutes > 59 || seconds > 60) return null;
    // A year of two digits is in this century.
    const year = Number(parts.year) + (parts.year?.length === 2 ? 2000 : 0);
    const at = new Date(Date.UTC(year, month, day, hours, minutes, seconds));
    const isOverflowing = new Date(Date.UTC(year, month, day)).getUTCDate() !== day;
    return isOverflowing ? null : at.getTime();
  }
  return null;
}
