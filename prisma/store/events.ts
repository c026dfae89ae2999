// The feed of a room, read. Numbers are handed out under the room's lock, so what was read by `seq` is never added to.

import type { RoomEvent } from '../generated/client';
import { entryResource, type MemoryViewer } from './memory-reads';
import type { Reader } from './transaction';

/** Up to `limit` events after a number, as one company may see them, in order. */
export async function listRoomEvents(
  reader: Reader,
  viewer: MemoryViewer,
  roomId: string,
  page: { after: bigint; limit: number },
): Promise<{ seq: bigint; resource: Record<string, unknown> }[]> {
  const events = await reader.roomEvent.findMany({
    where: { roomId, seq: { gt: page.after } },
    orderBy: { seq: 'asc' },
    take: page.limit,
  });
  const own = viewer.seesPrivate
    ? events.filter((event) => isPrivateMemory(event) && event.companyId === viewer.companyId)
    : [];
  const entries = await loadPrivateEntries(reader, viewer.companyId, own);
  return events.map((event) => ({ seq: event.seq, resource: eventResource(event, entries.get(event.id)) }));
}

/** An event as the feed shows it; `own` is what its company alone may read in the data's place. */
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

// The event holds only that there is an entry. What it says is read where it stands, as it was at the event; by event.
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
