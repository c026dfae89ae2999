// What streams and the company's feed read: a room, or all of a company's rooms and what becomes of its held actions. The
// position of a client is in its cursors and event ids, never here.

import { readNews } from '../prisma/store/rooms/events';
import { readHeldNews } from '../prisma/store/runs/held-actions/feed';
import { isId } from '../prisma/store/db/ids';
import type { Reader } from '../prisma/store/db/transaction';
import type { Viewer } from '../prisma/store/access/viewer';
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

/** A company's feed from a place in each of its parts on; the id of each event is the cursor behind it. */
export function companyStream(viewer: Viewer, start: Positions): StreamSource {
  let after: Positions | null = start;
  return {
    concerns: (roomOrCompany) => isId('room', roomOrCompany) || roomOrCompany === viewer.companyId,
    resume(lastEventId) {
      after = decodePositions(lastEventId);
    },
    async read(reader, keyId) {
      const news = await readCompanyNews(reader, { ...viewer, keyId }, after ?? new Map(), STREAM_PAGE);
      if (news === null) return null;
      if (after === null || isAhead(after, news.newest)) {
        after = news.newest;
        return { events: [], more: false, resync: encodePositions(after) };
      }
      const positions = new Map(after);
      const page = pageOf(news, ({ place, number, resource }) => {
        positions.set(place, number);
        return { id: encodePositions(positions), resource };
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
  const news = await readCompanyNews(reader, viewer, after, limit);
  const positions = new Map(after);
  const data = (news?.events ?? []).map(({ place, number, resource }) => {
    positions.set(place, number);
    return resource;
  });
  return { data, next_cursor: encodePositions(positions) };
}

interface CompanyEvent {
  /** The part of the feed that it is in, a room or `HELD`, and its number there. */
  readonly place: string;
  readonly number: bigint;
  readonly at: string;
  readonly resource: Record<string, unknown>;
}

/** Up to `limit` events of all parts of a company's feed, oldest first, those of each part in its own order. */
async function readCompanyNews(
  reader: Reader,
  viewer: Viewer & { readonly keyId: string },
  after: Positions,
  limit: number,
): Promise<{ events: CompanyEvent[]; newest: Positions } | null> {
  const rooms = new Map([...after].filter(([place]) => place !== HELD));
  const news = await readNews(reader, { ...viewer, roomId: null }, rooms, limit);
  const held = news && (await readHeldNews(reader, viewer, after.get(HELD) ?? 0n, limit));
  if (news === null || held === null) return null;
  const events = news.events.map(({ room, seq, resource }) => ({
    place: room,
    number: seq,
    at: String(resource['at']),
    resource: { ...resource, room },
  }));
  const changes = held.changes.map(({ number, at, resource }) => ({
    place: HELD,
    number,
    at: at.toISOString(),
    resource,
  }));
  return {
    events: byTime(events, changes).slice(0, limit),
    newest: new Map([...news.newest, [HELD, held.newest]]),
  };
}

/**
 * Two lists as one. What stands behind another in its list stays behind it, whatever their times: a cursor tells only how far
 * each part was read.
 */
function byTime(left: readonly CompanyEvent[], right: readonly CompanyEvent[]): CompanyEvent[] {
  const rest = [...right];
  const all = left.flatMap((event) => {
    const later = rest.findIndex(({ at }) => at >= event.at);
    return [...rest.splice(0, later === -1 ? rest.length : later), event];
  });
  return [...all, ...rest];
}

function pageOf<E>(
  news: { readonly events: readonly E[] },
  item: (event: E) => StreamPage['events'][number],
): StreamPage {
  return { events: news.events.map(item), more: news.events.length === STREAM_PAGE, resync: null };
}

/** The place of held actions beside those of rooms: no id of a room. */
const HELD = 'held';

/** The number of the last event that a client has of each room, and of the last change of a held action. */
export type Positions = ReadonlyMap<string, bigint>;

function isAhead(after: Positions, newest: Positions): boolean {
  return [...after].some(([place, number]) => number > (newest.get(place) ?? number));
}

/** As text: ids without their prefix, since every byte of a cursor is sent with every event of the stream. */
export function encodePositions(positions: Positions): string {
  const places = [...positions].map(
    ([place, number]) => `${place === HELD ? HELD : place.slice(ROOM.length)}${number}`,
  );
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
    const isHeld = place.startsWith(HELD);
    const of = isHeld ? HELD : ROOM + place.slice(0, ID_LENGTH);
    const number = place.slice(isHeld ? HELD.length : ID_LENGTH);
    if (!(isHeld || isId('room', of)) || !isSeq(number)) return null;
    positions.set(of, BigInt(number));
  }
  return positions;
}
