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
  const entries = await loadPrivateEntries(
    reader,
    viewer.companyId,
    own.map((event) => event.subjectId),
  );
  return events.map((event) => ({ seq: event.seq, resource: eventResource(event, entries.get(event.subjectId)) }));
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
  return event.type === 'memory' && isObject && data['visibility'] === 'private';
}

// The event holds only that there is an entry. What it says is read where it stands, as it was when it was written.
async function loadPrivateEntries(
  reader: Reader,
  companyId: string,
  ids: readonly string[],
): Promise<Map<string, Record<string, unknown>>> {
  if (ids.length === 0) return new Map();
  const entries = await reader.memoryEntry.findMany({ where: { id: { in: [...ids] }, companyId } });
  const viewer = { companyId, seesPrivate: true };
  return new Map(entries.map((entry) => [entry.id, entryResource({ ...entry, deprecatedAt: null }, viewer)]));
}
