// The feeds of a room and of a company, as pages and as streams. The position of a client is in its cursors and event
// ids; this process keeps none. How a stream is sent: `middleware/event-streams.ts`.

import { z } from 'zod';
import type { Viewer } from '../../prisma/store/access/viewer';
import { isId } from '../../prisma/store/db/ids';
import type { Reader } from '../../prisma/store/db/transaction';
import { listRoomEvents, readRoomEventsAfter } from '../../prisma/store/rooms/events';
import { viewRoom } from '../../prisma/store/rooms/rooms';
import { readHeldChangesAfter } from '../../prisma/store/runs/held-actions/feed';
import { viewerOf } from '../middleware/caller';
import type { StreamPage, StreamSource } from '../middleware/event-streams';
import { ok, readRoute, type Route } from '../route';
import { pageOf } from '../schemas/answers';
import { encodeCursor, isSeq } from '../schemas/cursors';
import { decodeFeedPosition, encodeFeedPosition, HELD, isAhead, type FeedPosition } from '../schemas/feed-position';
import { afterSeq, cursor, limit } from '../schemas/lists';
import { shownEvent, shownFeedEvent } from '../schemas/room-answers';

/** Always in the order of the numbers. `after` is the number of the last event that a client has. */
const roomFeedQuery = z
  .strictObject({ limit, after: afterSeq.optional(), cursor: cursor('seq').optional() })
  .refine((query) => query.after === undefined || query.cursor === undefined, {
    message: 'after or cursor, and not both',
    path: ['cursor'],
  });

const startOf = (query: z.output<typeof roomFeedQuery>): bigint => query.after ?? BigInt(query.cursor ?? 0);

const companyFeedCursor = z
  .string()
  .transform((given, context) => {
    const position = decodeFeedPosition(given);
    if (position !== null) return position;
    context.addIssue({ code: 'custom', message: 'a next_cursor of this feed' });
    return z.NEVER;
  })
  .meta({ minLength: 1 });

const companyFeedQuery = z.strictObject({ limit, cursor: companyFeedCursor.optional() });

const companyFeedPage = z.object({
  data: z.array(shownFeedEvent),
  next_cursor: z.string().meta({ description: 'Never null. When there is nothing new, read again from it later.' }),
});

export const streamRoutes: readonly Route[] = [
  readRoute({
    path: '/v1/rooms/:room/events',
    role: 'company',
    summary: 'List the events of a room by seq, or stream them',
    success: ok(pageOf(shownEvent)),
    query: roomFeedQuery,
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
  // Ordered within each room and within the changes of held actions. Between them there is no fixed order.
  readRoute({
    path: '/v1/feed',
    role: 'company',
    summary: "List the events of all the caller's rooms and the changes of its held actions, or stream them",
    success: ok(companyFeedPage),
    query: companyFeedQuery,
    async handle(db, { caller, query }) {
      const viewer = { ...viewerOf(caller), keyId: caller.keyId };
      return { status: 200, body: await readCompanyFeed(db, viewer, query.cursor ?? new Map(), query.limit) };
    },
    stream: ({ caller, query }) => companyStream(viewerOf(caller), query.cursor ?? new Map()),
  }),
];

/** Events per read of a stream. It bounds what this process holds for a slow reader. */
const STREAM_PAGE = 50;

/** Streams a room from a number on. The id of each event is its number. */
function roomStream(viewer: Viewer, roomId: string, start: bigint): StreamSource {
  let after: bigint | null = start;
  return {
    concerns: (room) => room === roomId,
    resume(lastEventId) {
      after = isSeq(lastEventId) ? BigInt(lastEventId) : null;
    },
    async read(reader, keyId) {
      const batch = await readRoomEventsAfter(
        reader,
        { ...viewer, keyId, roomId },
        new Map([[roomId, after ?? 0n]]),
        STREAM_PAGE,
      );
      if (batch === null) return null;
      const newest = batch.newest.get(roomId) ?? 0n;
      // The room never had this position, so it is unknown which events the client lacks.
      if (after === null || after > newest) {
        after = newest;
        return { events: [], more: false, resync: newest.toString() };
      }
      after = batch.events.at(-1)?.seq ?? after;
      return streamPageOf(batch, ({ seq, resource }) => ({ id: seq.toString(), resource }));
    },
  };
}

/** Streams a company's feed from a position on. The id of each event is the cursor after it. */
function companyStream(viewer: Viewer, start: FeedPosition): StreamSource {
  let after: FeedPosition | null = start;
  return {
    concerns: (roomOrCompany) => isId('room', roomOrCompany) || roomOrCompany === viewer.companyId,
    resume(lastEventId) {
      after = decodeFeedPosition(lastEventId);
    },
    async read(reader, keyId) {
      const batch = await readCompanyEvents(reader, { ...viewer, keyId }, after ?? new Map(), STREAM_PAGE);
      if (batch === null) return null;
      if (after === null || isAhead(after, batch.newest)) {
        after = batch.newest;
        return { events: [], more: false, resync: encodeFeedPosition(after) };
      }
      const position = new Map(after);
      const page = streamPageOf(batch, ({ partition, number, resource }) => {
        position.set(partition, number);
        return { id: encodeFeedPosition(position), resource };
      });
      after = position;
      return page;
    },
  };
}

/** Reads a page of a company's feed, and the cursor after it. */
async function readCompanyFeed(
  reader: Reader,
  viewer: Viewer & { readonly keyId: string },
  after: FeedPosition,
  pageSize: number,
): Promise<{ data: Record<string, unknown>[]; next_cursor: string }> {
  const batch = await readCompanyEvents(reader, viewer, after, pageSize);
  const position = new Map(after);
  const data = (batch?.events ?? []).map(({ partition, number, resource }) => {
    position.set(partition, number);
    return resource;
  });
  return { data, next_cursor: encodeFeedPosition(position) };
}

interface CompanyEvent {
  /** The partition of the feed: the id of a room, or `HELD`. */
  readonly partition: string;
  /** The number of the event in its partition. */
  readonly number: bigint;
  readonly at: string;
  readonly resource: Record<string, unknown>;
}

/** Reads up to `pageSize` events of all partitions, oldest first. The events of one partition keep their order. */
async function readCompanyEvents(
  reader: Reader,
  viewer: Viewer & { readonly keyId: string },
  after: FeedPosition,
  pageSize: number,
): Promise<{ events: CompanyEvent[]; newest: FeedPosition } | null> {
  const rooms = new Map([...after].filter(([partition]) => partition !== HELD));
  const batch = await readRoomEventsAfter(reader, { ...viewer, roomId: null }, rooms, pageSize);
  const held = batch && (await readHeldChangesAfter(reader, viewer, after.get(HELD) ?? 0n, pageSize));
  if (batch === null || held === null) return null;
  const events = batch.events.map(({ room, seq, resource }) => ({
    partition: room,
    number: seq,
    at: String(resource['at']),
    resource: { ...resource, room },
  }));
  const changes = held.changes.map(({ number, at, resource }) => ({
    partition: HELD,
    number,
    at: at.toISOString(),
    resource,
  }));
  return {
    events: mergeByTime(events, changes).slice(0, pageSize),
    newest: new Map([...batch.newest, [HELD, held.newest]]),
  };
}

/**
 * Merges two lists by time. The order within each list stays, even against the times: a cursor holds only the last
 * number read of each partition.
 */
function mergeByTime(left: readonly CompanyEvent[], right: readonly CompanyEvent[]): CompanyEvent[] {
  const rest = [...right];
  const all = left.flatMap((event) => {
    const later = rest.findIndex(({ at }) => at >= event.at);
    return [...rest.splice(0, later === -1 ? rest.length : later), event];
  });
  return [...all, ...rest];
}

function streamPageOf<E>(
  batch: { readonly events: readonly E[] },
  item: (event: E) => StreamPage['events'][number],
): StreamPage {
  return { events: batch.events.map(item), more: batch.events.length === STREAM_PAGE, resync: null };
}
