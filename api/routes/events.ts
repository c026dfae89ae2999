// The one write door of a room, and its feed.

import { listRoomEvents } from '../../prisma/store/rooms/events';
import { viewRoom } from '../../prisma/store/rooms/rooms';
import { z } from 'zod';
import { viewerOf } from '../callers';
import { encodeCursor } from '../cursors';
import { postEvents } from '../post-event';
import { roomStream } from '../room-feed';
import { created, ok, readRoute, sqlWriteRoute, type Route } from '../route';
import { pageOf } from '../schemas/answers';
import { eventsBody } from '../schemas/events';
import { afterSeq, cursor, limit } from '../schemas/lists';
import { postedEvents, shownEvent } from '../schemas/room-answers';

/** In the order of their numbers and no other: `after` is the number of the last event that a client has. */
const feedQuery = z
  .strictObject({ limit, after: afterSeq.optional(), cursor: cursor('seq').optional() })
  .refine((query) => query.after === undefined || query.cursor === undefined, {
    message: 'after or cursor, and not both',
    path: ['cursor'],
  });

const startOf = (query: z.output<typeof feedQuery>): bigint => query.after ?? BigInt(query.cursor ?? 0);

export const eventRoutes: readonly Route[] = [
  sqlWriteRoute({
    method: 'post',
    path: '/v1/rooms/:room/events',
    who: 'company',
    summary: 'Write to a room: one event, or up to 100 of which all are written or none',
    success: created(postedEvents),
    audit: null,
    body: eventsBody,
    async handle(tx, { caller, ids, body }) {
      const posted = await postEvents(tx, ids.room, caller, body);
      return { status: 201, body: Array.isArray(body) ? posted : posted[0] };
    },
  }),
  readRoute({
    path: '/v1/rooms/:room/events',
    who: 'company',
    summary: 'The feed of a room, by seq; as a stream it goes on',
    success: ok(pageOf(shownEvent)),
    query: feedQuery,
    async handle(db, { caller, ids, query }) {
      const { seesPrivate } = await viewRoom(db, viewerOf(caller), ids.room);
      const viewer = { companyId: caller.companyId, seesPrivate };
      const events = await listRoomEvents(db, viewer, ids.room, { after: startOf(query), limit: query.limit });
      const last = events.at(-1);
      const next = last !== undefined && events.length === query.limit ? encodeCursor(last.seq.toString()) : null;
      return { status: 200, body: { data: events.map((event) => event.resource), next_cursor: next } };
    },
    stream: ({ caller, ids, query }) => roomStream(viewerOf(caller), ids.room, startOf(query)),
  }),
];
