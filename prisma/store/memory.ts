// Shared memory: lines that outlive every run. Deprecated, never deleted.

import type { MemoryCategory, MemoryVisibility } from '../../workflows/contract';
import type { Author, RoomDraft } from './draft';
import { newId } from './ids';

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
 * The event of a private entry says that there is one, whose and when: what it holds is its company's own.
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
