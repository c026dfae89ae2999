// What is in a room, searched: its memory, and the passages of its files.

import { z } from 'zod';
import { listMemory } from '../../prisma/store/rooms/memory-reads';
import { searchMemory } from '../../prisma/store/rooms/memory-search';
import { loadPassage, passageResource, searchPassages } from '../../prisma/store/files/passages';
import { viewRoom } from '../../prisma/store/rooms/rooms';
import { QUERY_LIMIT } from '../../prisma/store/db/text-search';
import { MEMORY_CATEGORIES } from '../../workflows/contract';
import { viewerOf } from '../callers';
import { Problem } from '../problems';
import { ok, readRoute, type ApiDeps, type Route } from '../route';
import { pageOf } from '../schemas/answers';
import { shownPassage } from '../schemas/file-answers';
import { idOf, instant, oneOf } from '../schemas/fields';
import { shownEntry } from '../schemas/room-answers';
import { cursor, limit, listBody, rankedBody, rankedCursor, rankedRequest } from '../schemas/lists';

const query = z
  .string('what to search for')
  .refine((text) => text.trim() !== '' && text.length <= QUERY_LIMIT, `text of 1 to ${QUERY_LIMIT} characters`);

const author = z.union([idOf('key'), idOf('agent')], 'the id of a key or an agent');

const memoryFilter = {
  category: oneOf(MEMORY_CATEGORIES).optional(),
  tag: z.string('text').min(1, 'a tag').max(64, 'a tag of at most 64 characters').optional(),
  author: author.optional(),
  since: instant.optional(),
  until: instant.optional(),
  include_deprecated: oneOf(['true', 'false']).default('false'),
};

const memoryQuery = z.strictObject({
  limit,
  cursor: z.string().min(1).optional(),
  order: oneOf(['asc', 'desc']).optional(),
  q: query.optional(),
  ...memoryFilter,
});

/** By id, or with `q` by how well they match: two lists, and a cursor of one is none of the other. */
function placeIn(asked: z.output<typeof memoryQuery>) {
  if (asked.q !== undefined && asked.order !== undefined) {
    const place = { parameter: 'order' };
    throw new Problem('invalid_input', 'no order where q is given: the best comes first', { place });
  }
  const kind = asked.q === undefined ? cursor('mem') : rankedCursor('mem');
  const parsed = kind.optional().safeParse(asked.cursor);
  if (parsed.success) return parsed.data ?? null;
  throw new Problem('invalid_input', 'expected a next_cursor of this list', { place: { parameter: 'cursor' } });
}

export function searchRoutes(deps: Pick<ApiDeps, 'db' | 'searchLimitMs'>): readonly Route[] {
  return [
    readRoute({
      path: '/v1/rooms/:room/memory',
      who: 'company',
      summary: 'The memory of a room, or what of it matches',
      success: ok(pageOf(shownEntry)),
      problems: ['search_too_slow'],
      query: memoryQuery,
      async handle(db, { caller, ids, query: asked }) {
        const { seesPrivate } = await viewRoom(db, viewerOf(caller), ids.room);
        const viewer = { companyId: caller.companyId, seesPrivate };
        const { category, tag, author: by, since, until, include_deprecated: all } = asked;
        const filter = { category, tag, author: by, since, until, deprecated: all === 'true' };
        const { q, limit: most, order = 'asc' } = asked;
        const after = placeIn(asked);
        // A cursor is of the kind that its list has.
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
      path: '/v1/rooms/:room/passages',
      who: 'company',
      summary: 'Passages of the files of a room that match',
      success: ok(pageOf(shownPassage)),
      problems: ['search_too_slow'],
      query: z.strictObject({
        q: query,
        limit,
        cursor: rankedCursor('psg').optional(),
        file: idOf('file').optional(),
      }),
      async handle(db, { caller, ids, query: asked }) {
        await viewRoom(db, viewerOf(caller), ids.room);
        const search = { text: asked.q, limitMs: deps.searchLimitMs };
        const found = await searchPassages(deps.db, ids.room, search, asked.file, rankedRequest(asked));
        return { status: 200, body: rankedBody(found, passageResource) };
      },
    }),
    readRoute({
      path: '/v1/rooms/:room/passages/:passage',
      who: 'company',
      summary: 'A passage of a file',
      success: ok(shownPassage),
      async handle(db, { caller, ids }) {
        await viewRoom(db, viewerOf(caller), ids.room);
        return { status: 200, body: passageResource(await loadPassage(db, ids.room, ids.passage)) };
      },
    }),
  ];
}
