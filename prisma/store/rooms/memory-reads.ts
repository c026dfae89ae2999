// Reads shared memory, as the companies in a room may see it. Writes are in memory.ts.
//
// A viewer sees only the company and the time of another company's private entry. That entry matches no filter, and it is
// listed whether or not it is deprecated.

import type { MemoryCategory } from '../../../workflows/contract';
import { Prisma, type MemoryEntry } from '../../generated/client';
import { NotFound } from '../db/errors';
import { memoryResource } from './memory';
import { byId, pageOf, type Page, type PageRequest } from '../db/paging';
import { quoted } from '../db/text-search';
import { UNPREPARED } from '../db/prepared-statements';
import type { Reader } from '../db/transaction';

/** A company in a room, and whether this read may show the company's private entries. */
export interface MemoryViewer {
  readonly companyId: string;
  readonly seesPrivate: boolean;
}

export interface MemoryFilter {
  readonly category: MemoryCategory | undefined;
  readonly tag: string | undefined;
  /** Id of the key or agent that wrote the entry. */
  readonly author: string | undefined;
  /** Bounds of the creation time: `since` is included, `until` is not. */
  readonly since: Date | undefined;
  readonly until: Date | undefined;
  /** Includes deprecated entries. */
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
  if (!roomId || !viewer.companyId) throw new Error('memory is read in one room, for one company');
  const { where, orderBy, take } = byId(page);
  const [direction, beyond] = page.order === 'asc' ? [SQL.asc, SQL.after] : [SQL.desc, SQL.before];
  const { category, tag, author, since, until } = filter;
  const filtered = [category, tag, author, since, until].some((given) => given !== undefined);
  if (filtered) {
    const found = await reader.$queryRaw<{ id: string }[]>`${UNPREPARED}
      SELECT e.id FROM memory_entries e
      WHERE e.room_id = ${roomId} AND e.search @@ ${lexemesOf(roomId, filter).map(quoted).join(' & ')}::tsquery
        AND ${readable(viewer, filter)} AND (${page.after === null} OR e.id ${beyond} ${page.after ?? ''})
      ORDER BY e.id ${direction} LIMIT ${take}`;
    const { rows, next } = pageOf(found, page, (entry) => entry.id);
    return { rows: await loadEntries(reader, viewer, rows), next };
  }
  const own: Prisma.MemoryEntryWhereInput = {
    ...(viewer.seesPrivate
      ? { OR: [{ visibility: 'shared' }, { companyId: viewer.companyId }] }
      : { visibility: 'shared' }),
    ...(!filter.deprecated && { deprecatedAt: null }),
  };
  const hidden: Prisma.MemoryEntryWhereInput = {
    visibility: 'private',
    ...(viewer.seesPrivate && { companyId: { not: viewer.companyId } }),
  };
  const entries = await reader.memoryEntry.findMany({
    where: { ...where, roomId, AND: [{ OR: [own, hidden] }] },
    orderBy,
    take,
  });
  const { rows, next } = pageOf(entries, page, (entry) => entry.id);
  return { rows: rows.map((entry) => entryResource(entry, viewer)), next };
}

const SQL = {
  asc: Prisma.sql`ASC`,
  desc: Prisma.sql`DESC`,
  after: Prisma.sql`>`,
  before: Prisma.sql`<`,
} as const;

/** The lexemes that an entry's search column must contain: its room, and the filter's category, tag and author. */
export function lexemesOf(roomId: string, { category, tag, author }: MemoryFilter): string[] {
  const named = { room: roomId, category, tag, author };
  return Object.entries(named).flatMap(([name, value]) => (value === undefined ? [] : [`${name} ${value}`]));
}

/** A condition on `e`: the viewer may read the entry, and the filter matches it. */
export function readable(viewer: MemoryViewer, { since, until, deprecated }: MemoryFilter): Prisma.Sql {
  return Prisma.sql`
    (e.visibility = 'shared' OR (${viewer.seesPrivate} AND e.company_id = ${viewer.companyId}))
    AND (${deprecated} OR e.deprecated_at IS NULL)
    AND (${since === undefined} OR e.created_at >= ${since ?? null}::timestamptz)
    AND (${until === undefined} OR e.created_at < ${until ?? null}::timestamptz)`;
}

/** Entries by their ids, in that order, as one viewer may see them. */
export async function loadEntries(
  reader: Reader,
  viewer: MemoryViewer,
  found: readonly { readonly id: string }[],
): Promise<Record<string, unknown>[]> {
  const entries = await reader.memoryEntry.findMany({ where: { id: { in: found.map(({ id }) => id) } } });
  const byKey = new Map(entries.map((entry) => [entry.id, entry]));
  return found.flatMap(({ id }) => {
    const entry = byKey.get(id);
    return entry === undefined ? [] : [entryResource(entry, viewer)];
  });
}

/** Reads one entry, as the viewer may see it. @throws NotFound if this room has no such entry */
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
