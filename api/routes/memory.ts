// Reads and searches of a room's shared memory. Entries are written as events: `events.ts`.

import { z } from 'zod';
import { listMemory, loadMemoryEntry } from '../../prisma/store/rooms/memory-reads';
import { searchMemory } from '../../prisma/store/rooms/memory-search';
import { viewRoom } from '../../prisma/store/rooms/rooms';
import { MEMORY_CATEGORIES } from '../../workflows/contract';
import { viewerOf } from '../middleware/caller';
import { Problem } from '../problems';
import { ok, readRoute, type ApiDeps, type Route } from '../route';
import { pageOf } from '../schemas/answers';
import { idOf, instant, oneOf } from '../schemas/fields';
import { cursor, limit, listBody, rankedBody, rankedCursor, searchText } from '../schemas/lists';
import { shownEntry } from '../schemas/room-answers';

const author = z.union([idOf('key'), idOf('agent')], 'the id of a key or an agent');

const memoryQuery = z.strictObject({
  limit,
  cursor: z.string().min(1).optional(),
  order: oneOf(['asc', 'desc']).optional(),
  q: searchText.optional(),
  category: oneOf(MEMORY_CATEGORIES).optional(),
  tag: z.string('text').min(1, 'a tag').max(64, 'a tag of at most 64 characters').optional(),
  author: author.optional(),
  since: instant.optional(),
  until: instant.optional(),
  include_deprecated: oneOf(['true', 'false']).default('false'),
});

/** The cursor in a query. A list by id and a search with `q` have different cursors, and each refuses the other's. */
function cursorOf(query: z.output<typeof memoryQuery>) {
  if (query.q !== undefined && query.order !== undefined) {
    const location = { parameter: 'order' };
    throw new Problem('invalid_input', 'order cannot be combined with q: a search returns the best match first', {
      location,
    });
  }
  const kind = query.q === undefined ? cursor('mem') : rankedCursor('mem');
  const parsed = kind.optional().safeParse(query.cursor);
  if (parsed.success) return parsed.data ?? null;
  throw new Problem('invalid_input', 'expected a next_cursor of this list', { location: { parameter: 'cursor' } });
}

export function memoryRoutes(deps: Pick<ApiDeps, 'db' | 'searchLimitMs'>): readonly Route[] {
  return [
    readRoute({
      path: '/v1/rooms/:room/memory',
      role: 'company',
      summary: 'List the memory of a room, or search it with q',
      success: ok(pageOf(shownEntry)),
      problems: ['search_too_slow'],
      query: memoryQuery,
      async handle(db, { caller, ids, query }) {
        const { seesPrivate } = await viewRoom(db, viewerOf(caller), ids.room);
        const viewer = { companyId: caller.companyId, seesPrivate };
        const { category, tag, author: by, since, until, include_deprecated: all } = query;
        const filter = { category, tag, author: by, since, until, deprecated: all === 'true' };
        const { q, limit: most, order = 'asc' } = query;
        const after = cursorOf(query);
        // The cursor of a list is text, that of a search an object.
        if (typeof after === 'string' || q === undefined) {
          const page = { after: typeof after === 'string' ? after : null, limit: most, order };
          return { status: 200, body: listBody(await listMemory(db, viewer, ids.room, filter, page)) };
        }
        const search = { text: q, limitMs: deps.searchLimitMs };
        const found = await searchMemory(deps.db, viewer, ids.room, search, filter, { after, limit: most });
        return { status: 200, body: rankedBody(found) };
      },
    }),
    readRoute({
      path: '/v1/rooms/:room/memory/:entry',
      role: 'company',
      summary: 'Get a memory entry',
      success: ok(shownEntry),
      async handle(db, { caller, ids }) {
        const { seesPrivate } = await viewRoom(db, viewerOf(caller), ids.room);
        const viewer = { companyId: caller.companyId, seesPrivate };
        return { status: 200, body: await loadMemoryEntry(db, viewer, ids.room, ids.entry) };
      },
    }),
  ];
}
