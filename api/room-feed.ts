// What streams and the company's feed read: a room, or all of a company's rooms. The position of a client is in its
// cursors and event ids, never here.

import { readNews, type News } from '../prisma/store/events';
import { isId } from '../prisma/store/ids';
import type { Reader } from '../prisma/store/transaction';
import type { Viewer } from '../prisma/store/viewer';
import { isSeq } from './cursors';
import type { StreamPage, StreamSource } from './streams';

/** Events of one read of a stream: what a slow reader can make this process hold. */
const STREAM_PAGE = 50;

/** A room from a number on; the id of each event is its number. */
export function roomStream(viewer: Viewer, roomId: string, start: bigint): StreamSource {
  let after: bigint | null = start;
  return {
    concerns: (room) => room === roomId,
    resume(lastEventId) {
      after = isSeq(lastEventId) ? BigInt(lastEventId) : null;
    },
    async read(reader, keyId) {
      const news = await readNews(reader, { ...viewer, keyId, roomId }, new Map([[roomId, after ?? 0n]]), STREAM_PAGE);
      if (news === null) return null;
      const newest = news.newest.get(roomId) ?? 0n;
      // A place that this room never had: nobody can say what the client lacks.
      if (after === null || after > newest) {
        after = newest;
        return { events: [], more: false, resync: newest.toString() };
      }
      after = news.events.at(-1)?.seq ?? after;
      return pageOf(news, ({ seq, resource }) => ({ id: seq.toString(), resource }));
    },
  };
}

/** All of a company's rooms from a place in each on; the id of each event is the cursor behind it. */
export function companyStream(viewer: Viewer, start: Positions): StreamSource {
  let after: Positions | null = start;
  return {
    concerns: () => true,
    resume(lastEventId) {
      after = decodePositions(lastEventId);
    },
    async read(reader, keyId) {
      const news = await readNews(reader, { ...viewer, keyId, roomId: null }, after ?? new Map(), STREAM_PAGE);
      if (news === null) return null;
      if (after === null || isAhead(after, news.newest)) {
        after = news.newest;
        return { events: [], more: false, resync: encodePositions(after) };
      }
      const positions = new Map(after);
      const page = pageOf(news, ({ room, seq, resource }) => {
        positions.set(room, seq);
        return { id: encodePositions(positions), resource: { ...resource, room } };
      });
      after = positions;
      return page;
    },
  };
}

/** A page of a company's feed, and the cursor behind it. */
export async function readCompanyFeed(
  reader: Reader,
  viewer: Viewer & { readonly keyId: string },
  after: Positions,
  limit: number,
): Promise<{ data: Record<string, unknown>[]; next_cursor: string }> {
  const news = await readNews(reader, { ...viewer, roomId: null }, after, limit);
  const positions = new Map(after);
  const data = (news?.events ?? []).map(({ room, seq, resource }) => {
    positions.set(room, seq);
    return { ...resource, room };
  });
  return { data, next_cursor: encodePositions(positions) };
}

function pageOf(news: News, item: (event: News['events'][number]) => StreamPage['events'][number]): StreamPage {
  return { events: news.events.map(item), more: news.events.length === STREAM_PAGE, resync: null };
}

/** The number of the last event that a client has of each room. */
export type Positions = ReadonlyMap<string, bigint>;

function isAhead(after: Positions, newest: Positions): boolean {
  return [...after].some(([room, seq]) => seq > (newest.get(room) ?? seq));
}

/** As text: ids without their prefix, since every byte of a cursor is sent with every event of the stream. */
export function encodePositions(positions: Positions): string {
  const places = [...positions].map(([room, seq]) => `${room.slice(ROOM.length)}${seq}`);
  return Buffer.from(`1:${places.join(',')}`, 'utf8').toString('base64url');
}

const ROOM = 'room_';
const ID_LENGTH = 26;

/** The positions in a cursor of a company's feed, or null when it is none. */
export function decodePositions(cursor: string): Positions | null {
  const text = Buffer.from(cursor, 'base64url').toString('utf8');
  if (!text.startsWith('1:') || Buffer.from(text, 'utf8').toString('base64url') !== cursor) return null;
  const positions = new Map<string, bigint>();
  for (const place of text === '1:' ? [] : text.slice(2).split(',')) {
    const [room, seq] = [ROOM + place.slice(0, ID_LENGTH), place.slice(ID_LENGTH)];
    if (!isId('room', room) || !isSeq(seq)) return null;
    positions.set(room, BigInt(seq));
  }
  return positions;
}
