// Full-text search: what was asked for as a tsquery, and the time that a search may take.
//
// The search columns hold words, and lexemes that name what a row belongs to ('room room_…', 'file file_…'). No text makes
// a lexeme with a space in it, so these can be asked for and can't be forged.

import { Prisma } from '../../generated/client';
import { SearchTooSlow } from './errors';
import type { PageRequest } from './paging';
import type { Database } from './database';
import { sqlStateOf } from './sql-errors';
import type { SqlTx } from './transaction';

/** A search ranks this many of the newest rows that match: ranking every row would grow with the room. */
export const CANDIDATES_LIMIT = 100;

/** Rows that the walk passes for each one wanted: a word that is rarer than this is found through the index. */
const WALK = 50;

/** Longest text that is searched for, in characters. */
export const QUERY_LIMIT = 500;

/** What Postgres's parser finds to search for, and the place of the search. */
export interface SearchTerms {
  /** The words alone: what rows are ranked by. */
  readonly words: string;
  /** The words within what they are looked for in. */
  readonly scoped: string;
}

/** A row's place among those found: by rank, and by id where that is equal. */
export interface RankedKey {
  readonly rank: number;
  readonly id: string;
}

export interface RankedPageRequest {
  readonly after: RankedKey | null;
  readonly limit: PageRequest['limit'];
}

export interface RankedPage<T> {
  readonly rows: readonly T[];
  readonly next: RankedKey | null;
}

/** One page out of the rows read for it, of which the last may be the next page's first. */
export function rankedPageOf<T extends RankedKey>(rows: readonly T[], page: RankedPageRequest): RankedPage<T> {
  const shown = rows.slice(0, page.limit);
  const last = shown.at(-1);
  return { rows: shown, next: rows.length > page.limit && last ? { rank: last.rank, id: last.id } : null };
}

/**
 * Runs one search within its time, over what `text` asks for as a web search does: words, "phrases", or, -not. The last
 * word also finds what begins with it. Null, and nothing is run, when the text has nothing to search for.
 * @throws SearchTooSlow
 */
export async function searchWithin<T>(
  db: Database,
  limitMs: number,
  asked: { readonly text: string; readonly within: readonly string[] },
  work: (tx: SqlTx, terms: SearchTerms) => Promise<T>,
): Promise<T | null> {
  return db.sqlTransaction(async (tx) => {
    const [row] = await tx.$queryRaw<{ words: string }[]>`
      SELECT websearch_to_tsquery('simple', ${asked.text})::text AS words,
             set_config('statement_timeout', ${String(limitMs)}, true) AS "limit"`;
    const words = withPrefix(row?.words ?? '');
    if (words === '') return null;
    try {
      return await work(tx, { words, scoped: scoped(words, asked.within) });
    } catch (error) {
      if (sqlStateOf(error) !== '57014') throw error;
      throw new SearchTooSlow(`the search took longer than ${limitMs} ms; use rarer words or a narrower filter`);
    }
  });
}

/**
 * Ids of the newest rows of a room that match, at most so many, as a sub-select. `readable`: a condition on `e`.
 *
 * A common word is found by walking back from the newest row, and a rare one through the index of words; each way would take
 * the whole room for the other kind. So the walk comes first and is a short one. What it does not find is rare enough for the
 * index. Postgres's own estimate can't choose: of words that begin with something it knows nothing. In the second half the
 * word is kept from it: a word that is common in other rooms would have it read the whole table.
 */
export function newestMatching(
  table: 'memory_entries' | 'passages',
  roomId: string,
  tsquery: string,
  readable: Prisma.Sql,
  most: number,
): Prisma.Sql {
  const from = Prisma.raw(table);
  return Prisma.sql`(
    WITH near AS MATERIALIZED (
      SELECT e.id FROM (SELECT * FROM ${from} WHERE room_id = ${roomId} ORDER BY id DESC LIMIT ${most * WALK}) e
      WHERE e.search @@ ${tsquery}::tsquery AND ${readable} LIMIT ${most}
    ), far AS MATERIALIZED (
      SELECT e.id FROM ${from} e
      WHERE (SELECT count(*) FROM near) < ${most} AND e.search @@ (SELECT ${tsquery}::tsquery) AND e.room_id = ${roomId}
        AND ${readable}
    )
    SELECT id FROM near UNION SELECT id FROM far ORDER BY id DESC LIMIT ${most})`;
}

/** A tsquery for words within what these lexemes name. */
export function scoped(words: string, within: readonly string[]): string {
  return [...within.map(quoted), `( ${words} )`].join(' & ');
}

/** One lexeme, as a tsquery has it. */
export function quoted(lexeme: string): string {
  return `'${lexeme.replaceAll('\\', '\\\\').replaceAll("'", "''")}'`;
}

// The last word may be half typed. Not one of a phrase, nor one to be left out.
function withPrefix(words: string): string {
  return /(^|[&|] )'[^']+'$/.test(words) ? `${words}:*` : words;
}
