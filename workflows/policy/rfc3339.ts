// The one reader of RFC 3339 dates and times. Deadlines of people and of models, and the filters of lists, all pass
// through it. Pure, and without zod, which must not reach workflow code.

const DATE = /^(\d{4})-(\d{2})-(\d{2})$/;
const TIME = /^(\d{4}-\d{2}-\d{2})[Tt]([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d{1,9})?([Zz]|[+-]([01]\d|2[0-3]):[0-5]\d)$/;

/** The stored form of a deadline: a full date unchanged, a time with its offset as its instant in UTC. Null: neither. */
export function parseDeadline(text: string): string | null {
  return isCalendarDate(text) ? text : (parseInstant(text)?.toISOString() ?? null);
}

/** The instant of a time with its offset, or null. A leap second (60) is refused, because `Date` cannot hold it. */
export function parseInstant(text: string): Date | null {
  const date = TIME.exec(text)?.[1];
  if (date === undefined || !isCalendarDate(date)) return null;
  const instant = new Date(text.toUpperCase());
  // An offset can move a time out of the years that RFC 3339 can write.
  const year = instant.getUTCFullYear();
  return year >= 1 && year <= 9999 ? instant : null;
}

function isCalendarDate(text: string): boolean {
  const [, year = 0, month = 0, day = 0] = (DATE.exec(text) ?? []).map(Number);
  if (year < 1) return false;
  // `Date.UTC` reads years below 100 as years of the 20th century.
  const date = new Date(Date.UTC(2000, month - 1, day));
  date.setUTCFullYear(year, month - 1, day);
  return date.getUTCMonth() === month - 1 && date.getUTCDate() === day;
}
