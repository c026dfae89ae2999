// Full-text search: the request as a tsquery, and the time that a search may take.
//
// The search columns hold words, and lexemes that name the owner of a row ('room room_…', 'file file_…'). No text makes a
// lexeme with a space in it, so these lexemes can't be forged.

import { Prisma } from '../../generated/client';
import { SearchTooSlow } from './errors';
import type { PageRequest } from './paging';
import type { Database } from './database';
import { sqlStateOf } from './sql-errors';
import type { SqlTx } from './transaction';

/** A search ranks this many of the newest rows that match: ranking every row would grow with the room. */
export const CANDIDATES_LIMIT = 100;

/** Rows that the walk reads for each wanted row. A word that is rarer is found through the index. */
const WALK = 50;

/** Longest search text, in characters. */
export const QUERY_LIMIT = 500;

/** The terms that Postgres's parser finds in the text. */
export interface SearchTerms {
  /** The words alone, by which rows are ranked. */
  readonly words: string;
  /** The words, restricted to the scope of the search. */
  readonly scoped: string;
}

/** A row's position in the result: by rank, and by id among equal ranks. */
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
 * Runs one search within its time limit. `text` is read like a web search: words, "phrases", or, -not; the last word also
 * matches as a prefix. Returns null without a search when the text has no term.
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
 * A sub-select: the ids of the newest matching rows of a room, at most `most`. `readable` is a condition on `e`.
 *
 * A common word is found by a walk back from the newest row, a rare word through the index; each way would read the whole
 * room for the other kind. So a short walk comes first, and a word that it does not find is rare enough for the index.
 * Postgres can't choose itself: it has no statistics of prefixes. The second half hides the word from the planner, which
 * would read the whole table for a word that is common in other rooms.
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

/** A tsquery for words in rows that have all these lexemes. */
export function scoped(words: string, within: readonly string[]): string {
  return [...within.map(quoted), `( ${words} )`].join(' & ');
}

/** One lexeme, quoted for a tsquery. */
export function quoted(lexeme: string): string {
  return `'${lexeme.replaceAll('\\', '\\\\').replaceAll("'", "''")}'`;
}

// The last word may be half typed. A word of a phrase, or after -, is not.
function withPrefix(words: string): string {
  return /(^|[&|] )'[^']+'$/.test(words) ? `${words}:*` : words;
}
