// Reads of a room's messages. Messages are written as events: `events.ts`.

import { listMessages, loadMessage } from '../../prisma/store/rooms/messages';
import { viewRoom } from '../../prisma/store/rooms/rooms';
import { viewerOf } from '../middleware/caller';
import { ok, readRoute, type Route } from '../route';
import { pageOf } from '../schemas/answers';
import { listBody, listQuery, pageRequest } from '../schemas/lists';
import { shownMessage } from '../schemas/room-answers';

export const messageRoutes: readonly Route[] = [
  readRoute({
    path: '/v1/rooms/:room/messages',
    role: 'company',
    summary: 'List the messages of a room, by seq',
    success: ok(pageOf(shownMessage)),
    query: listQuery('seq'),
    async handle(db, { caller, ids, query }) {
      await viewRoom(db, viewerOf(caller), ids.room);
      return { status: 200, body: listBody(await listMessages(db, ids.room, pageRequest(query))) };
    },
  }),
  readRoute({
    path: '/v1/rooms/:room/messages/:message',
    role: 'company',
    summary: 'Get a message',
    success: ok(shownMessage),
    async handle(db, { caller, ids }) {
      await viewRoom(db, viewerOf(caller), ids.room);
      return { status: 200, body: await loadMessage(db, ids.room, ids.message) };
    },
  }),
];
