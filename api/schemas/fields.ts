// Schemas of fields that many resources share. Their messages name what is expected and repeat no input.

import { z } from 'zod';
import { isValidName, isValidSlug, NAME_LIMIT, SLUG_LIMIT, slugFromName } from '../../workflows/policy/mentions';
import { parseDeadline, parseInstant } from '../../workflows/policy/rfc3339';
import { InvalidInput } from '../../prisma/store/db/errors';
import type { IdPrefix } from '../../prisma/store/db/ids';
import { TEXT_LIMIT } from '../../workflows/contract';

/** The pattern of ids with these prefixes. */
export function idPattern(...prefixes: readonly IdPrefix[]): RegExp {
  return new RegExp(`^(${prefixes.join('|')})_[0-7][0-9a-hjkmnp-tv-z]{25}$`);
}

/** An id in a body or a query. */
export function idOf(prefix: IdPrefix) {
  return z.string('an id').regex(idPattern(prefix), `an id that starts with ${prefix}_`);
}

export const slug = z
  .string('text')
  .refine(isValidSlug, `a slug: 1 to ${SLUG_LIMIT} lower-case letters and digits with single hyphens between`)
  .meta({ minLength: 1, maxLength: SLUG_LIMIT, examples: ['launch-2'] });

/** The name by which people and agents address a resource. Stored without white space around it. */
export const name = z
  .string('text')
  .refine(isValidName, `a name: 1 to ${NAME_LIMIT} characters on one line with a letter or digit, and no @`)
  .transform((text) => text.trim())
  .meta({ minLength: 1, examples: ['Launch'] });

/** The name of an internal resource of a company, such as a key. */
export const label = z
  .string('text')
  .transform((text) => text.trim())
  .refine(
    (text) => text !== '' && Array.from(text).length <= NAME_LIMIT && !/[\p{Cc}\u2028-\u202e\u2066-\u2069]/u.test(text),
    `1 to ${NAME_LIMIT} characters on one line`,
  )
  .meta({ minLength: 1, examples: ['main'] });

/** The text of a message, task or memory entry. */
export const text = z
  .string('text')
  .max(TEXT_LIMIT, `at most ${TEXT_LIMIT} characters`)
  .refine((given) => given.trim() !== '', 'text that is not blank')
  .meta({ minLength: 1 });

export function optionalText() {
  return z.string('text').max(TEXT_LIMIT, `at most ${TEXT_LIMIT} characters`);
}

/** One value of a closed set. */
export function oneOf<const T extends readonly [string, ...string[]]>(values: T) {
  return z.enum(values, `one of ${values.join(', ')}`);
}

export const flag = z.boolean('true or false');

/** The given slug, or one made from the name. @throws InvalidInput when the name has no letter or digit */
export function slugOr(given: string | undefined, fallback: string): string {
  const made = given ?? slugFromName(fallback);
  if (made === null) throw new InvalidInput('a slug is required: the name has no letter or digit', '/slug');
  return made;
}

/** True when at least one field is given. */
export function changesSomething(change: object): boolean {
  return Object.values(change).some((value) => value !== undefined);
}
export const CHANGES_SOMETHING = 'at least one field to change';

/** An RFC 3339 date, kept unchanged, or a time with an offset, converted to UTC. */
export const deadline = z
  .string('text')
  .transform((given, context) => {
    const kept = parseDeadline(given);
    if (kept !== null) return kept;
    context.addIssue({ code: 'custom', message: 'a date such as 2026-08-08, or a time such as 2026-08-08T17:00:00Z' });
    return z.NEVER;
  })
  .meta({ anyOf: [{ format: 'date' }, { format: 'date-time' }], examples: ['2026-08-08', '2026-08-08T17:00:00Z'] });

/** An RFC 3339 time with an offset, for a filter. */
export const instant = z
  .string('text')
  .transform((given, context) => {
    const kept = parseInstant(given);
    if (kept !== null) return kept;
    context.addIssue({ code: 'custom', message: 'a time such as 2026-08-08T17:00:00Z' });
    return z.NEVER;
  })
  .meta({ format: 'date-time', examples: ['2026-08-08T17:00:00Z'] });
