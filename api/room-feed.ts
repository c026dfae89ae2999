// What streams and the company's feed read: a room, or all of a company's rooms and what became of its held actions. The
// position of a client is in its cursors and event ids, never here.

import { readNews } from '../prisma/store/events';
import { heldActionResource, readHeldChanges } from '../prisma/store/held-action-reads';
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
      const news = await readCompanyNews(reader, { ...viewer, keyId }, after ?? new Map(), STREAM_PAGE);
      if (news === null) return null;
      if (after === null || isAhead(after, news.newest)) {
        after = news.newest;
        return { events: [], more: false, resync: encodePositions(after) };
      }
      const positions = new Map(after);
      const page = pageOf(news, ({ place, seq, resource }) => {
        positions.set(place, seq);
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
  const data = (news?.events ?? []).map(({ place, seq, resource }) => {
    positions.set(place, seq);
    return resource;
  });
  return { data, next_cursor: encodePositions(positions) };
}

interface CompanyNews {
  /** `place`: the room, or `HELD`, in whose order the event has the number `seq`. */
  readonly events: readonly { place: string; seq: bigint; at: string; resource: Record<string, unknown> }[];
  readonly newest: Positions;
}

/** Events of all the rooms and changes of held actions, oldest first; each in the order of its own place. */
async function readCompanyNews(
  reader: Reader,
  viewer: Viewer & { readonly keyId: string },
  after: Positions,
  limit: number,
): Promise<CompanyNews | null> {
  const rooms = new Map([...after].filter(([place]) => place !== HELD));
  const news = await readNews(reader, { ...viewer, roomId: null }, rooms, limit);
  if (news === null) return null;
  const held = await readHeldChanges(reader, viewer, after.get(HELD) ?? 0n, limit);
  const events = news.events.map(({ room, seq, resource }) => {
    const at = String(resource['at']);
    return { place: room, seq, at, resource: { ...resource, room } };
  });
  const changes = held.changes.map((action) => {
    const at = action.changedAt.toISOString();
    const { id, roomId: room, companyId: company } = action;
    const resource = { id, type: HELD, at, room, company, author: null, data: heldActionResource(action) };
    return { place: HELD, seq: action.change, at, resource };
  });
  return {
    events: merged(events, changes).slice(0, limit),
    newest: new Map([...news.newest, ...(held.newest > 0n ? [[HELD, held.newest] as const] : [])]),
  };
}

/** Two lists into one by time, each kept in its own order: a cursor goes on behind the last of each. */
function merged<T extends { readonly at: string }>(left: readonly T[], right: readonly T[]): T[] {
  const all: T[] = [];
  for (let [l, r] = [0, 0]; l < left.length || r < right.length;) {
    const [a, b] = [left[l], right[r]];
    if (b === undefined || (a !== undefined && a.at <= b.at)) all.push(left[l++] as T);
    else all.push(right[r++] as T);
  }
  return all;
}

function pageOf<T>(
  news: { readonly events: readonly T[] },
  item: (event: T) => StreamPage['events'][number],
): StreamPage {
  return { events: news.events.map(item), more: news.events.length === STREAM_PAGE, resync: null };
}

/** The place of held actions among those of rooms, and the type of what the feed tells of them. */
const HELD = 'held_action';

/** The number of the last event that a client has of each room, and of the last change of a held action. */
export type Positions = ReadonlyMap<string, bigint>;

function isAhead(after: Positions, newest: Positions): boolean {
  return [...after].some(([room, seq]) => seq > (newest.get(room) ?? seq));
}

/** As text: ids without their prefix, since every byte of a cursor is sent with every event of the stream. */
export function encodePositions(positions: Positions): string {
  const places = [...positions].map(([place, seq]) =>
    place === HELD ? `${HELD}${seq}` : `${place.slice(ROOM.length)}${seq}`,
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
    const [of, seq] = place.startsWith(HELD)
      ? [HELD, place.slice(HELD.length)]
      : [ROOM + place.slice(0, ID_LENGTH), place.slice(ID_LENGTH)];
    if (!(of === HELD || isId('room', of)) || !isSeq(seq)) return null;
    positions.set(of, BigInt(seq));
  }
  return positions;
}
