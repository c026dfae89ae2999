// The one write door of a room, and its feed.

import { RoomDraft, type AppendedEvent } from '../../prisma/store/draft';
import { listRoomEvents } from '../../prisma/store/events';
import { viewRoom } from '../../prisma/store/rooms';
import { z } from 'zod';
import { viewerOf } from '../callers';
import { encodeCursor } from '../cursors';
import { admitPoster, stageEvent, wakeAnswer } from '../post-event';
import { readRoute, writeRoute, type Route } from '../route';
import { eventBody } from '../schemas/events';
import { afterSeq, cursor, limit } from '../schemas/lists';

/** In the order of their numbers and no other: `after` is the number of the last event that a client has. */
const feedQuery = z
  .strictObject({ limit, after: afterSeq.optional(), cursor: cursor('seq').optional() })
  .refine((query) => query.after === undefined || query.cursor === undefined, {
    message: 'after or cursor, and not both',
    path: ['cursor'],
  });

export const eventRoutes: readonly Route[] = [
  writeRoute({
    method: 'post',
    path: '/v1/rooms/:room/events',
    who: 'company',
    audit: null,
    body: eventBody,
    async handle(tx, { caller, ids, body }) {
      const poster = await admitPoster(tx, ids.room, caller);
      const draft = new RoomDraft(ids.room);
      const staged = await stageEvent(tx, draft, poster, body);
      const [event] = (await draft.append(tx)) as [AppendedEvent];
      return {
        status: 201,
        body: {
          seq: Number(event.seq),
          event: event.id,
          id: staged.subjectId,
          wakes: staged.wakes.map((wake) => wakeAnswer(wake, caller.companyId)),
        },
      };
    },
  }),
  readRoute({
    path: '/v1/rooms/:room/events',
    who: 'company',
    query: feedQuery,
    async handle(db, { caller, ids, query }) {
      const { seesPrivate } = await viewRoom(db, viewerOf(caller), ids.room);
      const after = query.after ?? BigInt(query.cursor ?? 0);
      const viewer = { companyId: caller.companyId, seesPrivate };
      const events = await listRoomEvents(db, viewer, ids.room, { after, limit: query.limit });
      const last = events.at(-1);
      const next = last !== undefined && events.length === query.limit ? encodeCursor(last.seq.toString()) : null;
      return { status: 200, body: { data: events.map((event) => event.resource), next_cursor: next } };
    },
  }),
];
