// What is in a room, searched: its memory, and the passages of its files.

import { z } from 'zod';
import { listMemory } from '../../prisma/store/memory-reads';
import { searchMemory } from '../../prisma/store/memory-search';
import { loadPassage, passageResource, searchPassages } from '../../prisma/store/passages';
import { viewRoom } from '../../prisma/store/rooms';
import { QUERY_LIMIT } from '../../prisma/store/search';
import { MEMORY_CATEGORIES } from '../../workflows/contract';
import { viewerOf } from '../callers';
import { readRoute, type ApiDeps, type Route } from '../route';
import { idOf, instant, oneOf } from '../schemas/fields';
import { cursor, limit, listBody, listQuery, rankedBody, rankedCursor, rankedRequest } from '../schemas/lists';

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

/** By id, or with `q` by how well they match: two lists, and a cursor of one is none of the other. */
const memoryQuery = listQuery('mem')
  .omit({ cursor: true, order: true })
  .extend({ q: query.optional(), cursor: z.string().optional(), order: oneOf(['asc', 'desc']).optional() })
  .extend(memoryFilter)
  .transform(({ q, cursor: given, order, limit: most, ...filter }, context) => {
    if (q !== undefined && order !== undefined) {
      context.addIssue({ code: 'custom', message: 'no order where q is given: the best comes first', path: ['order'] });
      return z.NEVER;
    }
    const byId = q === undefined;
    const parsed = (byId ? cursor('mem') : rankedCursor('mem')).optional().safeParse(given);
    if (!parsed.success) {
      context.addIssue({ code: 'custom', message: 'a next_cursor of this list', path: ['cursor'] });
      return z.NEVER;
    }
    return { q, filter, limit: most, order: order ?? 'asc', after: parsed.data ?? null };
  });

export function searchRoutes(deps: Pick<ApiDeps, 'db' | 'searchLimitMs'>): readonly Route[] {
  return [
    readRoute({
      path: '/v1/rooms/:room/memory',
      who: 'company',
      query: memoryQuery,
      async handle(db, { caller, ids, query: asked }) {
        const { seesPrivate } = await viewRoom(db, viewerOf(caller), ids.room);
        const viewer = { companyId: caller.companyId, seesPrivate };
        const { category, tag, author: by, since, until, include_deprecated: all } = asked.filter;
        const filter = { category, tag, author: by, since, until, deprecated: all === 'true' };
        const { q, after, limit: most, order } = asked;
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
      async handle(db, { caller, ids }) {
        await viewRoom(db, viewerOf(caller), ids.room);
        return { status: 200, body: passageResource(await loadPassage(db, ids.room, ids.passage)) };
      },
    }),
  ];
}
