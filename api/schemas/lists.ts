// Lists: `limit`, `cursor` and `order`, and the page that answers. Oldest first unless asked otherwise.

import { z } from 'zod';
import type { Page, PageRequest } from '../../prisma/store/db/paging';
import type { IdPrefix } from '../../prisma/store/db/ids';
import type { RankedPage, RankedPageRequest, RankedKey } from '../../prisma/store/db/text-search';
import { decodeCursor, decodeRankedCursor, encodeCursor, encodeRankedCursor, isSeq, type CursorKey } from '../cursors';
import { oneOf } from './fields';

export const LIMIT_DEFAULT = 50;
const LIMIT_MAX = 200;

export const limit = z
  .string()
  .refine((text) => /^[1-9]\d{0,2}$/.test(text) && Number(text) <= LIMIT_MAX, `a number from 1 to ${LIMIT_MAX}`)
  .transform(Number)
  .default(LIMIT_DEFAULT)
  .meta({ type: 'integer', minimum: 1, maximum: LIMIT_MAX, default: LIMIT_DEFAULT });

/** As `limit`, in a body. */
export const limitField = z
  .int(`a number from 1 to ${LIMIT_MAX}`)
  .min(1, `a number from 1 to ${LIMIT_MAX}`)
  .max(LIMIT_MAX, `a number from 1 to ${LIMIT_MAX}`);

export function cursor(kind: CursorKey) {
  return z
    .string()
    .transform((given, context) => {
      const key = decodeCursor(given, kind);
      if (key !== null) return key;
      context.addIssue({ code: 'custom', message: 'a next_cursor of this list' });
      return z.NEVER;
    })
    .meta({ minLength: 1 });
}

/** The query of a list whose cursors are keys of one kind. Filters extend it. */
export function listQuery(kind: CursorKey) {
  return z.strictObject({
    limit,
    cursor: cursor(kind).optional(),
    order: oneOf(['asc', 'desc']).default('asc'),
  });
}

/** Which page a parsed `listQuery` asks for. */
export function pageRequest(query: { limit: number; cursor?: string | undefined; order: 'asc' | 'desc' }): PageRequest {
  return { after: query.cursor ?? null, limit: query.limit, order: query.order };
}

/** The answer to a list. */
export function listBody<T>(page: Page<T>, resource: (row: T) => unknown = (row) => row): Record<string, unknown> {
  return {
    data: page.rows.map((row) => resource(row)),
    next_cursor: page.next === null ? null : encodeCursor(page.next),
  };
}

/** The cursor of a list that is ordered by rank. */
export function rankedCursor(kind: IdPrefix) {
  return z.string().transform((given, context) => {
    const key = decodeRankedCursor(given, kind);
    if (key !== null) return key;
    context.addIssue({ code: 'custom', message: 'a next_cursor of this list' });
    return z.NEVER;
  });
}

export function rankedRequest(query: { limit: number; cursor?: RankedKey | undefined }): RankedPageRequest {
  return { after: query.cursor ?? null, limit: query.limit };
}

/** The answer to a search. */
export function rankedBody<T>(
  page: RankedPage<T>,
  resource: (row: T) => unknown = (row) => row,
): Record<string, unknown> {
  return {
    data: page.rows.map((row) => resource(row)),
    next_cursor: page.next === null ? null : encodeRankedCursor(page.next),
  };
}

/** The number of the last event that a client has. */
export const afterSeq = z
  .string()
  .refine(isSeq, 'the seq of an event, or 0')
  .transform(BigInt)
  .meta({ pattern: '^(0|[1-9][0-9]{0,18})$' });
