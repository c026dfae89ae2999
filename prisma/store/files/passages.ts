// Passages: the pieces of a room's files for search and citation. They are not visible before their file is ready.

import { Prisma } from '../../generated/client';
import { NotFound } from '../db/errors';
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
import type { Reader } from '../db/transaction';

/** A passage with the fields for citing it. */
export interface Passage {
  readonly id: string;
  readonly roomId: string;
  readonly fileId: string;
  readonly fileName: string;
  readonly number: number;
  readonly page: number | null;
  readonly line: number | null;
  readonly start: number;
  readonly text: string;
}

/** The matching passages of a room's files, or of one file, best first. @throws SearchTooSlow */
export async function searchPassages(
  db: Database,
  roomId: string,
  asked: { readonly text: string; readonly limitMs: number },
  fileId: string | undefined,
  page: RankedPageRequest,
): Promise<RankedPage<Passage>> {
  if (!roomId) throw new Error('passages are searched in one room');
  const within = [`room ${roomId}`, ...(fileId === undefined ? [] : [`file ${fileId}`])];
  const found = await searchWithin(
    db,
    asked.limitMs,
    { text: asked.text, within },
    (tx, { words, scoped }) => tx.$queryRaw<(Passage & RankedKey)[]>`${UNPREPARED}
      WITH found AS MATERIALIZED ${newestMatching('passages', roomId, scoped, Prisma.sql`true`, CANDIDATES_LIMIT)},
      ranked AS (
        SELECT p.id, p.room_id AS "roomId", p.file_id AS "fileId", f.name AS "fileName", p.number, p.page, p.line,
               p.start, p.text, ts_rank(p.search, ${words}::tsquery)::float8 AS rank
        FROM found JOIN passages p USING (id) JOIN files f ON f.id = p.file_id
        WHERE f.state = 'ready' AND p.room_id = ${roomId}
      )
      SELECT * FROM ranked
      WHERE ${page.after === null} OR (rank, id) < (${page.after?.rank ?? 0}::float8, ${page.after?.id ?? ''})
      ORDER BY rank DESC, id DESC LIMIT ${page.limit + 1}`,
  );
  return rankedPageOf(found ?? [], page);
}

/** @throws NotFound when this room has no such passage, or its file is not ready */
export async function loadPassage(reader: Reader, roomId: string, passageId: string): Promise<Passage> {
  const passage = await reader.passage.findUnique({
    where: { id: passageId, roomId, file: { state: 'ready' } },
    include: { file: { select: { name: true } } },
  });
  if (!passage) throw new NotFound('no such passage in this room');
  return { ...passage, fileName: passage.file.name };
}

/** A passage as all members of its room see it. */
export function passageResource(passage: Passage): Record<string, unknown> {
  return {
    id: passage.id,
    room: passage.roomId,
    file: passage.fileId,
    file_name: passage.fileName,
    number: passage.number,
    page: passage.page,
    line: passage.line,
    start: passage.start,
    text: passage.text,
  };
}
