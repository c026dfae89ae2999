// Searches shared memory. A search never finds another company's private entry, by its words, tags, author or time.

import { loadEntries, lexemesOf, readable, type MemoryFilter, type MemoryViewer } from './memory-reads';
import {
  CANDIDATES_LIMIT,
  newestMatching,
  rankedPageOf,
  searchWithin,
  type RankedKey,
  type RankedPage,
  type RankedPageRequest,
} from '../db/text-search';
import { UNPREPARED } from '../db/prepared-statements';
import type { Database } from '../db/database';

/** The matching entries of a room, best first, as the viewer may see them. @throws SearchTooSlow */
export async function searchMemory(
  db: Database,
  viewer: MemoryViewer,
  roomId: string,
  asked: { readonly text: string; readonly limitMs: number },
  filter: MemoryFilter,
  page: RankedPageRequest,
): Promise<RankedPage<Record<string, unknown>>> {
  if (!roomId || !viewer.companyId) throw new Error('memory is searched in one room, for one company');
  const found = await searchWithin(
    db,
    asked.limitMs,
    { text: asked.text, within: lexemesOf(roomId, filter) },
    (tx, { words, scoped }) => tx.$queryRaw<RankedKey[]>`${UNPREPARED}
      WITH found AS MATERIALIZED ${newestMatching('memory_entries', roomId, scoped, readable(viewer, filter), CANDIDATES_LIMIT)},
      ranked AS (
        SELECT e.id, ts_rank(e.search, ${words}::tsquery)::float8 AS rank FROM found JOIN memory_entries e USING (id)
      )
      SELECT id, rank FROM ranked
      WHERE ${page.after === null} OR (rank, id) < (${page.after?.rank ?? 0}::float8, ${page.after?.id ?? ''})
      ORDER BY rank DESC, id DESC LIMIT ${page.limit + 1}`,
  );
  const { rows, next } = rankedPageOf(found ?? [], page);
  return { rows: await loadEntries(db, viewer, rows), next };
}
