// The second read of a run, by relevance: older memory and passages of files that match the waking message, and the entries
// and files that the agent's open tasks refer to. It runs only in a room with more than the newest rows.

import { Prisma } from '../../generated/client';
import {
  assertReader,
  MEMORY_JSON,
  roomView,
  VIEW_LIMITS,
  type NewestOfRoom,
  type ReadingRun,
  type RoomView,
  type ViewedMemory,
  type ViewedPassage,
} from './context-queries';
import { newestMatching, quoted, scoped } from '../db/text-search';
import { UNPREPARED } from '../db/prepared-statements';
import type { SqlTx } from '../db/transaction';

/** The most entries and the most passages that a run reads in addition to the newest. */
const FOUND_LIMITS = { memory: 20, passages: 12 } as const;

/** The most words to search, each in a separate search, and the most rows that one word may find. */
const WORDS_LIMIT = 6;
const ROWS_PER_WORD = 15;

/** How many passages are read from the beginning of each attached file: enough to recognize the file. */
const OPENING_PASSAGES = 3;

/** Higher than any sum of word scores: a row that a task refers to comes before a row that only matches. */
const NAMED_WEIGHT = 1_000;

/** How many characters of the message are searched for words. Longer text adds words, but seldom a new subject. */
const SCANNED_CHARACTERS = 4_000;

export interface Relevant {
  readonly found_memory: readonly ViewedMemory[];
  readonly passages: readonly ViewedPassage[];
}

/** Reads the room for a run, without the claim of a model request. For callers outside `claimRequest`. */
export async function readRoom(tx: SqlTx, run: ReadingRun): Promise<RoomView> {
  const [row] = await tx.$queryRaw<{ view: NewestOfRoom | null }[]>`SELECT (${roomView(run)}) AS view`;
  if (!row?.view) throw new Error('there is no room to read');
  return { ...row.view, ...(await readRelevant(tx, run, row.view)) };
}

/**
 * Finds relevant rows that are not among the newest. At most one statement, and none if the room has no other rows.
 *
 * Each word that finds a row adds 1/n to its score, where n is the number of rows that the word found: a rare word that finds
 * one row counts more than a common word that finds fifteen.
 * @throws Error as `assertReader`
 */
export async function readRelevant(tx: SqlTx, run: ReadingRun, newest: NewestOfRoom): Promise<Relevant> {
  assertReader(run);
  const shown = newest.memory.map((entry) => entry.id);
  const refs = newest.tasks.flatMap((task) => task.memory_refs).filter((id) => !shown.includes(id));
  const attached = newest.tasks.flatMap((task) => task.attachments.map((file) => file.id));
  const hasMoreMemory = newest.memory.length === VIEW_LIMITS.memory;
  const words = hasMoreMemory || newest.has_passages ? wordsToFind(newest.waking.text) : [];
  const memory = memoryArms(run, hasMoreMemory ? words : [], refs);
  const passages = newest.has_passages ? passageArms(run, words, attached) : [];
  if (memory.length === 0 && passages.length === 0) return { found_memory: [], passages: [] };
  const [row] = await tx.$queryRaw<{ memory: ViewedMemory[]; passages: ViewedPassage[] }[]>`${UNPREPARED}
    WITH memory_hits AS (${hits(memory)}), memory_scores AS (${scores(Prisma.sql`memory_hits`)}),
         passage_hits AS (${hits(passages)}), passage_scores AS (${scores(Prisma.sql`passage_hits`)})
    SELECT
      (SELECT coalesce(json_agg(x.j ORDER BY x.score DESC, x.id DESC), '[]') FROM (
        SELECT s.id, s.score, ${MEMORY_JSON} AS j
        FROM memory_scores s JOIN memory_entries e ON e.id = s.id JOIN companies c ON c.id = e.company_id
        WHERE NOT e.id = ANY(${shown}::text[]) AND ${readableMemory(run)}
        ORDER BY s.score DESC, s.id DESC LIMIT ${FOUND_LIMITS.memory}) x) AS memory,
      (SELECT coalesce(json_agg(x.j ORDER BY x.score DESC, x.id DESC), '[]') FROM (
        SELECT s.id, s.score, json_build_object('id', p.id, 'file', f.id, 'file_name', f.name, 'company', c.name,
          'author', f.author_name, 'at', f.created_at, 'page', p.page, 'line', p.line, 'text', p.text) AS j
        FROM passage_scores s JOIN passages p ON p.id = s.id JOIN files f ON f.id = p.file_id
        JOIN companies c ON c.id = f.company_id
        WHERE p.room_id = ${run.roomId} AND f.state = 'ready'
        ORDER BY s.score DESC, s.id DESC LIMIT ${FOUND_LIMITS.passages}) x) AS passages`;
  return { found_memory: row?.memory ?? [], passages: row?.passages ?? [] };
}

/**
 * The longest words of a text, each once: long words usually describe it best. Mentions of agents are left out.
 */
export function wordsToFind(text: string): string[] {
  const found = text
    .slice(0, SCANNED_CHARACTERS)
    .toLowerCase()
    .replace(/[@＠][\p{L}\p{N}_-]+/gu, ' ')
    .match(/[\p{L}\p{N}][\p{L}\p{N}\p{M}]{3,39}/gu);
  return [...new Set(found)].sort((a, b) => b.length - a.length).slice(0, WORDS_LIMIT);
}

// A word matches as a prefix. A final "s" is removed, so that a plural also matches the singular.
function queryOf(word: string): string {
  return `${quoted(word.length > 4 && word.endsWith('s') ? word.slice(0, -1) : word)}:*`;
}

/** A condition on `e`: this run's agent may read the row. */
function readableMemory(run: ReadingRun): Prisma.Sql {
  return Prisma.sql`e.room_id = ${run.roomId} AND e.deprecated_at IS NULL
    AND (e.visibility = 'shared' OR (e.company_id = ${run.companyId} AND EXISTS (
      SELECT FROM room_agents ra
      WHERE ra.room_id = ${run.roomId} AND ra.agent_id = ${run.agentId} AND ra.private_memory)))`;
}

function memoryArms(run: ReadingRun, words: readonly string[], refs: readonly string[]): Prisma.Sql[] {
  const room = `room ${run.roomId}`;
  const arms = words.map(
    (word, index) => Prisma.sql`(
      SELECT id, ${index}::int AS word, 1 AS weight
      FROM ${newestMatching('memory_entries', run.roomId, scoped(queryOf(word), [room]), readableMemory(run), ROWS_PER_WORD)} x)`,
  );
  if (refs.length === 0) return arms;
  return [
    ...arms,
    Prisma.sql`(SELECT e.id, -1 AS word, ${NAMED_WEIGHT}::int AS weight FROM memory_entries e
      WHERE e.id = ANY(${refs}::text[]) AND ${readableMemory(run)})`,
  ];
}

function passageArms(run: ReadingRun, words: readonly string[], attached: readonly string[]): Prisma.Sql[] {
  const room = `room ${run.roomId}`;
  const arms = words.map(
    (word, index) => Prisma.sql`(
      SELECT id, ${index}::int AS word, 1 AS weight
      FROM ${newestMatching('passages', run.roomId, scoped(queryOf(word), [room]), Prisma.sql`true`, ROWS_PER_WORD)} x)`,
  );
  if (attached.length === 0) return arms;
  const files = `( ${attached.map((id) => quoted(`file ${id}`)).join(' | ')} )`;
  const matching = scoped(words.map(queryOf).join(' | '), [room]);
  return [
    ...arms,
    Prisma.sql`(SELECT p.id, -1 AS word, ${NAMED_WEIGHT}::int AS weight FROM passages p
      WHERE p.file_id = ANY(${attached}::text[]) AND p.room_id = ${run.roomId} AND p.number <= ${OPENING_PASSAGES})`,
    ...(words.length === 0
      ? []
      : [
          Prisma.sql`(SELECT p.id, -2 AS word, ${NAMED_WEIGHT}::int AS weight FROM passages p
            WHERE p.room_id = ${run.roomId} AND p.search @@ ${`${matching} & ${files}`}::tsquery
            ORDER BY p.number LIMIT ${ROWS_PER_WORD})`,
        ]),
  ];
}

function hits(arms: readonly Prisma.Sql[]): Prisma.Sql {
  if (arms.length === 0) return Prisma.sql`SELECT NULL::text AS id, 0 AS word, 1 AS weight WHERE false`;
  return Prisma.join([...arms], ' UNION ALL ');
}

function scores(of: Prisma.Sql): Prisma.Sql {
  return Prisma.sql`
    SELECT h.id, sum(h.weight::float8 / n.n) AS score
    FROM ${of} h JOIN (SELECT word, count(*) AS n FROM ${of} GROUP BY word) n USING (word)
    GROUP BY h.id`;
}
