// The feed of a room, and a company's over all its rooms, read. Numbers are handed out under the room's lock, so what was
// read by `seq` is never added to.

import type { RoomEvent } from '../../generated/client';
import { entryResource, type MemoryViewer } from './memory-reads';
import { IS_LIVE } from '../access/keys';
import type { Reader } from '../db/transaction';
import { streamedRooms, type Viewer } from '../access/viewer';

export interface ShownEvent {
  readonly room: string;
  readonly seq: bigint;
  readonly resource: Record<string, unknown>;
}

/** The events after a position in a feed. */
export interface News {
  readonly events: readonly ShownEvent[];
  /** The newest number of each room that is read, seen by the same statement. */
  readonly newest: ReadonlyMap<string, bigint>;
}

/** Up to `limit` events after a number, as one company may see them, in order. */
export async function listRoomEvents(
  reader: Reader,
  viewer: MemoryViewer,
  roomId: string,
  page: { after: bigint; limit: number },
): Promise<ShownEvent[]> {
  const events = await reader.roomEvent.findMany({
    where: { roomId, seq: { gt: page.after } },
    orderBy: { seq: 'asc' },
    take: page.limit,
  });
  return showEvents(reader, viewer.companyId, () => viewer.seesPrivate, events);
}

/**
 * Up to `limit` events after the given number of each room that the viewer may read, oldest first; a room without a number
 * is read from its start. Null when there is no such room, its key is revoked or its company suspended: asked and read in
 * one statement, so that nothing is read that may no longer be.
 */
export async function readNews(
  reader: Reader,
  viewer: Viewer & { readonly keyId: string; readonly roomId: string | null },
  after: ReadonlyMap<string, bigint>,
  limit: number,
): Promise<News | null> {
  const positions = JSON.stringify(Object.fromEntries([...after].map(([room, seq]) => [room, seq.toString()])));
  const rows = await reader.$queryRaw<(RoomEvent & { room: string | null; newest: bigint; seesPrivate: boolean })[]>`
    WITH rooms_read AS MATERIALIZED (${streamedRooms(viewer, viewer.keyId, viewer.roomId)}),
    news AS (
      SELECT e.*, r.sees_private
      FROM rooms_read r
      LEFT JOIN jsonb_each_text(${positions}::jsonb) p ON p.key = r.id
      CROSS JOIN LATERAL (
        SELECT * FROM room_events e
        WHERE e.room_id = r.id AND e.seq > coalesce(p.value::bigint, 0) ORDER BY e.seq LIMIT ${limit}
      ) e
      WHERE r.last_seq > coalesce(p.value::bigint, 0)
      ORDER BY e.at, e.room_id, e.seq LIMIT ${limit}
    )
    SELECT r.id AS room, r.last_seq AS newest, n.room_id AS "roomId", n.seq, n.id, n.type, n.company_id AS "companyId",
           n.author_kind AS "authorKind", n.author_id AS "authorId", n.author_name AS "authorName",
           n.subject_id AS "subjectId", n.data, n.at, n.sees_private AS "seesPrivate"
    FROM rooms_read r LEFT JOIN news n ON n.room_id = r.id
    ORDER BY n.at, n.room_id, n.seq`;
  if (rows.length === 0 && (viewer.roomId !== null || !(await isLive(reader, viewer)))) return null;
  const events = rows.filter((row) => row.id !== null);
  return {
    newest: new Map(rows.map((row) => [row.room as string, row.newest])),
    events: await showEvents(reader, viewer.companyId, (event) => event.seesPrivate, events),
  };
}

// A company in no room has a feed too, an empty one.
async function isLive(reader: Reader, viewer: Viewer & { readonly keyId: string }): Promise<boolean> {
  const [row] = await reader.$queryRaw<{ live: boolean }[]>`
    SELECT EXISTS (SELECT FROM api_keys k JOIN companies c ON c.id = k.company_id
                   WHERE k.id = ${viewer.keyId} AND ${IS_LIVE} AND c.suspended_at IS NULL) AS live`;
  return row?.live === true;
}

async function showEvents<E extends RoomEvent>(
  reader: Reader,
  companyId: string,
  seesPrivate: (event: E) => boolean,
  events: readonly E[],
): Promise<ShownEvent[]> {
  const own = events.filter((event) => isPrivateMemory(event) && event.companyId === companyId && seesPrivate(event));
  const entries = await loadPrivateEntries(reader, companyId, own);
  return events.map((event) => ({
    room: event.roomId,
    seq: event.seq,
    resource: eventResource(event, entries.get(event.id)),
  }));
}

/** An event as the feed shows it; `own` replaces the data for its own company. */
function eventResource(event: RoomEvent, own: Record<string, unknown> | undefined): Record<string, unknown> {
  const hidden = event.authorId === null || (isPrivateMemory(event) && own === undefined);
  return {
    id: event.id,
    seq: Number(event.seq),
    type: event.type,
    at: event.at.toISOString(),
    company: event.companyId,
    author: hidden ? null : { kind: event.authorKind, id: event.authorId, name: event.authorName },
    data: own ?? event.data,
  };
}

function isPrivateMemory(event: RoomEvent): boolean {
  const { data } = event;
  const isObject = data !== null && typeof data === 'object' && !Array.isArray(data);
  return (
    (event.type === 'memory' || event.type === 'memory_deprecation') && isObject && data['visibility'] === 'private'
  );
}

// The event does not hold the entry's content, which is read from the entry, as it was at the event. By event.
async function loadPrivateEntries(
  reader: Reader,
  companyId: string,
  events: readonly RoomEvent[],
): Promise<Map<string, Record<string, unknown>>> {
  if (events.length === 0) return new Map();
  const ids = events.map((event) => event.subjectId);
  const entries = await reader.memoryEntry.findMany({ where: { id: { in: ids }, companyId } });
  const byId = new Map(entries.map((entry) => [entry.id, entry]));
  const viewer = { companyId, seesPrivate: true };
  return new Map(
    events.flatMap((event) => {
      const entry = byId.get(event.subjectId);
      if (entry === undefined) return [];
      const deprecatedAt = event.type === 'memory_deprecation' ? entry.deprecatedAt : null;
      return [[event.id, entryResource({ ...entry, deprecatedAt }, viewer)]];
    }),
  );
}
