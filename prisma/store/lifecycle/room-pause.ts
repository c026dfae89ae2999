// Pausing a whole room: from this moment no run begins in it. Runs that have begun continue.

import { Prisma, type Room } from '../../generated/client';
import { RoomDraft, type Author } from '../rooms/room-draft';
import { lockRoomAsHost } from '../rooms/rooms';
import { declareLock, forNoKeyUpdate } from '../db/lock-order';
import type { Tx } from '../db/transaction';

/** A run that had begun when its room was paused. */
export interface RunInFlight {
  readonly run: string;
  readonly agent: string;
  readonly message: string;
}

/**
 * Pauses a room for its host and returns it with the runs still in flight. `changed` is false when it was paused before.
 *
 * Every membership is locked, which a claim locks for sharing: a claim under way is waited for, and its run is among those
 * in flight; a later claim sees the room paused. It takes the room's lock: it must be the last call of its transaction.
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
 * Lets runs begin again; `changed` is false when the room was not paused. Wakes suppressed meanwhile stay suppressed.
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
