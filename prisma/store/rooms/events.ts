// Reads the feed of a room, and the feed of a company over all its rooms. Numbers are assigned under the room's lock, so no
// event is added later below a `seq` that was read.

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
export interface RoomEventsAfter {
  readonly events: readonly ShownEvent[];
  /** The newest number of each room, read by the same statement. */
  readonly newest: ReadonlyMap<string, bigint>;
}

/** Up to `limit` events after a number, in order, as the viewer's company may see them. */
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
 * Up to `limit` events after the given number of each room that the viewer may read, oldest first. A room without a number
 * is read from its start. Null if the viewer may not read the room, its key is revoked, or its company is suspended.
 *
 * One statement checks the access and reads the events, so no event is read after the access ended.
 */
export async function readRoomEventsAfter(
  reader: Reader,
  viewer: Viewer & { readonly keyId: string; readonly roomId: string | null },
  after: ReadonlyMap<string, bigint>,
  limit: number,
): Promise<RoomEventsAfter | null> {
  const positions = JSON.stringify(Object.fromEntries([...after].map(([room, seq]) => [room, seq.toString()])));
  const rows = await reader.$queryRaw<(RoomEvent & { room: string | null; newest: bigint; seesPrivate: boolean })[]>`
    WITH rooms_read AS MATERIALIZED (${streamedRooms(viewer, viewer.keyId, viewer.roomId)}),
    found AS (
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
    FROM rooms_read r LEFT JOIN found n ON n.room_id = r.id
    ORDER BY n.at, n.room_id, n.seq`;
  if (rows.length === 0 && (viewer.roomId !== null || !(await isLive(reader, viewer)))) return null;
  const events = rows.filter((row) => row.id !== null);
  return {
    newest: new Map(rows.map((row) => [row.room as string, row.newest])),
    events: await showEvents(reader, viewer.companyId, (event) => event.seesPrivate, events),
  };
}

// A company without a room has an empty feed, which is not null.
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

/** An event as the feed shows it. `own`, if given, replaces the data: the viewer's company wrote the entry. */
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

// The private entries of these events, by event id. The event does not store the content of a private entry, so it is read
// from the entry and shown as it was at the time of the event.
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
