// Shared memory, as the companies in a room see it. What adds to it is `memory.ts`.
//
// Of another company's private entry nobody learns more than whose it is and since when: it matches no filter, and is
// shown whether or not it was deprecated.

import type { MemoryCategory } from '../../workflows/contract';
import type { MemoryEntry, Prisma } from '../generated/client';
import { NotFound } from './errors';
import { memoryResource } from './memory';
import { byId, pageOf, type Page, type PageRequest } from './paging';
import type { Reader } from './transaction';

/** A company in a room, and whether this look may show what it keeps private. */
export interface MemoryViewer {
  readonly companyId: string;
  readonly seesPrivate: boolean;
}

export interface MemoryFilter {
  readonly category: MemoryCategory | undefined;
  /** Id of the key or agent that wrote it. */
  readonly author: string | undefined;
  readonly deprecated: boolean;
}

/** A room's memory, by id, as the viewer may see it. */
export async function listMemory(
  reader: Reader,
  viewer: MemoryViewer,
  roomId: string,
  filter: MemoryFilter,
  page: PageRequest,
): Promise<Page<Record<string, unknown>>> {
  const { where, ...rest } = byId(page);
  const filtered = filter.category !== undefined || filter.author !== undefined;
  const readable: Prisma.MemoryEntryWhereInput = {
    ...(viewer.seesPrivate
      ? { OR: [{ visibility: 'shared' }, { companyId: viewer.companyId }] }
      : { visibility: 'shared' }),
    ...(filter.category !== undefined && { category: filter.category }),
    ...(filter.author !== undefined && { authorId: filter.author }),
    ...(!filter.deprecated && { deprecatedAt: null }),
  };
  const hidden: Prisma.MemoryEntryWhereInput = {
    visibility: 'private',
    ...(viewer.seesPrivate && { companyId: { not: viewer.companyId } }),
  };
  const entries = await reader.memoryEntry.findMany({
    where: { ...where, roomId, AND: [filtered ? readable : { OR: [readable, hidden] }] },
    ...rest,
  });
  const { rows, next } = pageOf(entries, page, (entry) => entry.id);
  return { rows: rows.map((entry) => entryResource(entry, viewer)), next };
}

/** @throws NotFound when this room has no such entry */
export async function loadMemoryEntry(
  reader: Reader,
  viewer: MemoryViewer,
  roomId: string,
  entryId: string,
): Promise<Record<string, unknown>> {
  const entry = await reader.memoryEntry.findUnique({ where: { id: entryId, roomId } });
  if (!entry) throw new NotFound('no such memory entry in this room');
  return entryResource(entry, viewer);
}

/** An entry as one viewer may see it. */
export function entryResource(entry: MemoryEntry, viewer: MemoryViewer): Record<string, unknown> {
  const author = {
    kind: entry.authorKind as 'person' | 'service' | 'agent',
    id: entry.authorId,
    name: entry.authorName,
    companyId: entry.companyId,
  };
  const own = viewer.seesPrivate && entry.companyId === viewer.companyId;
  return memoryResource({ ...entry, author }, own ? 'company' : 'everyone');
}
