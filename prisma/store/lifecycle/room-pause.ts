// Pauses a room: no new run starts in it, and open runs continue.

import { Prisma, type Room } from '../../generated/client';
import { RoomDraft, type Author } from '../rooms/room-draft';
import { lockRoomAsHost } from '../rooms/rooms';
import { declareLock, forNoKeyUpdate } from '../db/lock-order';
import type { Tx } from '../db/transaction';

/** A run that was open when its room was paused. */
export interface RunInFlight {
  readonly run: string;
  readonly agent: string;
  readonly message: string;
}

/**
 * Pauses a room for its host and returns the room and its open runs. `changed` is false if it was paused before.
 *
 * It locks every membership, which a claim locks for sharing. It therefore waits for a claim in progress, and its run is
 * among the open runs; a later claim finds the room paused. It takes the room's lock, so no other lock may follow.
 * @throws NotFound, NotAllowed, Conflict
 */
export async function pauseRoom(
  tx: Tx,
  roomId: string,
  author: Author,
): Promise<{ room: Room; inFlight: readonly RunInFlight[]; changed: boolean }> {
  await tx.$queryRaw`
    SELECT 1 AS locked FROM room_members WHERE room_id = ${roomId} ORDER BY company_id
    ${forNoKeyUpdate(tx, 'membership')}`;
  await lockRoomAsHost(tx, roomId, author.companyId);
  const changed = await switchRoom(tx, roomId, author, 'room_paused');
  const inFlight = await tx.$queryRaw<RunInFlight[]>`
    SELECT id AS run, agent_id AS agent, message_id AS message
    FROM runs WHERE room_id = ${roomId} AND state = 'open' ORDER BY id`;
  return { room: await tx.room.findUniqueOrThrow({ where: { id: roomId } }), inFlight, changed };
}

/**
 * Allows new runs again; `changed` is false if the room was not paused. Suppressed wakes stay suppressed.
 * @throws NotFound, NotAllowed, Conflict
 */
export async function resumeRoom(tx: Tx, roomId: string, author: Author): Promise<{ room: Room; changed: boolean }> {
  await lockRoomAsHost(tx, roomId, author.companyId);
  const changed = await switchRoom(tx, roomId, author, 'room_resumed');
  return { room: await tx.room.findUniqueOrThrow({ where: { id: roomId } }), changed };
}

async function switchRoom(
  tx: Tx,
  roomId: string,
  author: Author,
  type: 'room_paused' | 'room_resumed',
): Promise<boolean> {
  const change =
    type === 'room_paused'
      ? Prisma.sql`paused_at = clock_ms() WHERE paused_at IS NULL`
      : Prisma.sql`paused_at = NULL WHERE paused_at IS NOT NULL`;
  declareLock(tx, 'room');
  const changed = await tx.$executeRaw`UPDATE rooms SET ${change} AND id = ${roomId}`;
  if (changed === 0) return false;
  const draft = new RoomDraft(roomId);
  draft.addEvent({ type, author, subjectId: roomId, data: { room: roomId } });
  await draft.append(tx);
  return true;
}
