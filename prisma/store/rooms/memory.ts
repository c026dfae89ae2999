// Shared memory: entries that remain after the run that wrote them. An entry can be deprecated, but never deleted.

import type { MemoryCategory, MemoryVisibility } from '../../../workflows/contract';
import type { Author, RoomDraft } from './room-draft';
import { Conflict, NotAllowed, NotFound } from '../db/errors';
import { newId } from '../db/ids';
import type { SqlTx } from '../db/transaction';

export interface MemoryToWrite {
  readonly author: Author;
  readonly category: MemoryCategory;
  readonly tags: readonly string[];
  readonly content: string;
  readonly visibility: MemoryVisibility;
  readonly runId: string | null;
}

/**
 * Stages a memory entry and its event, and returns their ids.
 *
 * The event of a private entry shows only its company and its time: the content is for its own company.
 */
export function stageMemory(
  draft: RoomDraft,
  roomId: string,
  entry: MemoryToWrite,
): { memoryId: string; eventId: string } {
  const memoryId = newId('mem');
  draft.addMemory({ id: memoryId, ...entry });
  const eventId = draft.addEvent({
    type: 'memory',
    author: entry.author,
    subjectId: memoryId,
    data: memoryResource(
      { id: memoryId, roomId, ...entry, createdAt: null, deprecatedAt: null, redactedAt: null },
      'everyone',
    ),
  });
  return { memoryId, eventId };
}

/**
 * Deprecates an entry of the author's company and stages the event. Lists then show the entry only on request.
 * @throws NotFound if this room has no such entry; NotAllowed if another company wrote it; Conflict if it is deprecated
 */
export async function deprecateMemory(tx: SqlTx, draft: RoomDraft, author: Author, memoryId: string): Promise<string> {
  const [entry] = await tx.$queryRaw<DeprecatedRow[]>`
    UPDATE memory_entries SET deprecated_at = clock_ms()
    WHERE id = ${memoryId} AND room_id = ${draft.roomId} AND company_id = ${author.companyId} AND deprecated_at IS NULL
    RETURNING id, author_kind AS "authorKind", author_id AS "authorId", author_name AS "authorName", category, tags,
              content, visibility, run_id AS "runId", created_at AS "createdAt", deprecated_at AS "deprecatedAt",
              redacted_at AS "redactedAt"`;
  if (!entry) throw await whyNotDeprecated(tx, draft.roomId, author.companyId, memoryId);
  const writer = { kind: entry.authorKind, id: entry.authorId, name: entry.authorName, companyId: author.companyId };
  return draft.addEvent({
    type: 'memory_deprecation',
    author,
    subjectId: memoryId,
    data: memoryResource({ ...entry, roomId: draft.roomId, author: writer }, 'everyone'),
  });
}

interface DeprecatedRow {
  readonly id: string;
  readonly authorKind: Author['kind'];
  readonly authorId: string;
  readonly authorName: string;
  readonly category: string;
  readonly tags: readonly string[];
  readonly content: string;
  readonly visibility: string;
  readonly runId: string | null;
  readonly createdAt: Date;
  readonly deprecatedAt: Date;
  readonly redactedAt: Date | null;
}

async function whyNotDeprecated(tx: SqlTx, roomId: string, companyId: string, memoryId: string): Promise<Error> {
  const [entry] = await tx.$queryRaw<{ companyId: string }[]>`
    SELECT company_id AS "companyId" FROM memory_entries WHERE id = ${memoryId} AND room_id = ${roomId}`;
  if (!entry) return new NotFound('no such memory entry in this room');
  if (entry.companyId !== companyId) return new NotAllowed('only the company that wrote an entry may deprecate it');
  return new Conflict('the entry is already deprecated');
}

/** A memory entry as its own company (`company`) or everyone in the room may see it. */
export function memoryResource(
  entry: {
    id: string;
    roomId: string;
    author: Author;
    category: string;
    tags: readonly string[];
    content: string;
    visibility: string;
    runId: string | null;
    createdAt: Date | null;
    deprecatedAt: Date | null;
    redactedAt: Date | null;
  },
  reader: 'company' | 'everyone',
): Record<string, unknown> {
  const created_at = entry.createdAt?.toISOString() ?? null;
  if (entry.visibility === 'private' && reader === 'everyone') {
    return { id: entry.id, room: entry.roomId, company: entry.author.companyId, visibility: 'private', created_at };
  }
  return {
    id: entry.id,
    room: entry.roomId,
    company: entry.author.companyId,
    author: { kind: entry.author.kind, id: entry.author.id, name: entry.author.name },
    category: entry.category,
    tags: entry.tags,
    content: entry.content,
    visibility: entry.visibility,
    run: entry.runId,
    created_at,
    deprecated_at: entry.deprecatedAt?.toISOString() ?? null,
    redacted_at: entry.redactedAt?.toISOString() ?? null,
  };
}
