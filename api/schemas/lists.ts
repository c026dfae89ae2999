// Schemas of lists: `limit`, `cursor` and `order`, and the page that answers. The default order is oldest first.

import { z } from 'zod';
import type { Page, PageRequest } from '../../prisma/store/db/paging';
import type { IdPrefix } from '../../prisma/store/db/ids';
import {
  QUERY_LIMIT,
  type RankedKey,
  type RankedPage,
  type RankedPageRequest,
} from '../../prisma/store/db/text-search';
import { decodeCursor, decodeRankedCursor, encodeCursor, encodeRankedCursor, isSeq, type CursorKey } from './cursors';
import { oneOf } from './fields';

export const LIMIT_DEFAULT = 50;
const LIMIT_MAX = 200;

export const limit = z
  .string()
  .refine((text) => /^[1-9]\d{0,2}$/.test(text) && Number(text) <= LIMIT_MAX, `a number from 1 to ${LIMIT_MAX}`)
  .transform(Number)
  .default(LIMIT_DEFAULT)
  .meta({ type: 'integer', minimum: 1, maximum: LIMIT_MAX, default: LIMIT_DEFAULT });

/** `limit` for a JSON body. */
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

/** The query of a list whose cursors hold keys of one kind. Routes extend it with filters. */
export function listQuery(kind: CursorKey) {
  return z.strictObject({
    limit,
    cursor: cursor(kind).optional(),
    order: oneOf(['asc', 'desc']).default('asc'),
  });
}

/** The page that a parsed `listQuery` asks for. */
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

/** The text of a search. */
export const searchText = z
  .string('the text to search for')
  .refine((text) => text.trim() !== '' && text.length <= QUERY_LIMIT, `text of 1 to ${QUERY_LIMIT} characters`);

/** The cursor of a search, whose results are ordered by rank. */
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
