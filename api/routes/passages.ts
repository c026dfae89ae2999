// Passages: the searchable pieces of a room's files.

import { z } from 'zod';
import { loadPassage, passageResource, searchPassages } from '../../prisma/store/files/passages';
import { viewRoom } from '../../prisma/store/rooms/rooms';
import { viewerOf } from '../middleware/caller';
import { ok, readRoute, type ApiDeps, type Route } from '../route';
import { pageOf } from '../schemas/answers';
import { idOf } from '../schemas/fields';
import { shownPassage } from '../schemas/file-answers';
import { limit, rankedBody, rankedCursor, rankedRequest, searchText } from '../schemas/lists';

export function passageRoutes(deps: Pick<ApiDeps, 'db' | 'searchLimitMs'>): readonly Route[] {
  return [
    readRoute({
      path: '/v1/rooms/:room/passages',
      role: 'company',
      summary: 'Search the passages of the files of a room',
      success: ok(pageOf(shownPassage)),
      problems: ['search_too_slow'],
      query: z.strictObject({
        q: searchText,
        limit,
        cursor: rankedCursor('psg').optional(),
        file: idOf('file').optional(),
      }),
      async handle(db, { caller, ids, query }) {
        await viewRoom(db, viewerOf(caller), ids.room);
        const search = { text: query.q, limitMs: deps.searchLimitMs };
        const found = await searchPassages(deps.db, ids.room, search, query.file, rankedRequest(query));
        return { status: 200, body: rankedBody(found, passageResource) };
      },
    }),
    readRoute({
      path: '/v1/rooms/:room/passages/:passage',
      role: 'company',
      summary: 'Get a passage of a file',
      success: ok(shownPassage),
      async handle(db, { caller, ids }) {
        await viewRoom(db, viewerOf(caller), ids.room);
        return { status: 200, body: passageResource(await loadPassage(db, ids.room, ids.passage)) };
      },
    }),
  ];
}
