// Invitations: a code that a guest company's admin redeems once. Stored as SHA-256, shown when it is made.

import { createHash, randomBytes } from 'node:crypto';
import type { Author } from './draft';
import { Conflict, Gone, NotFound } from './errors';
import { newId } from './ids';
import { addMember, lockRoomAsHost, type Member } from './rooms';
import type { Tx } from './transaction';

/** Long enough for the other company's working week, short enough to be forgotten in a mailbox. */
const VALID_DAYS = 7;
const CODE_BYTES = 32;

function hashCode(code: string): Buffer {
  return createHash('sha256').update(code, 'utf8').digest();
}

/** Makes an invitation, for the room's host, and returns its code, this once. @throws NotFound, NotAllowed, Conflict */
export async function createInvitation(
  tx: Tx,
  roomId: string,
  companyId: string,
): Promise<{ id: string; code: string; expiresAt: Date }> {
  await lockRoomAsHost(tx, roomId, companyId);
  const id = newId('inv');
  const code = `dr_invite_${randomBytes(CODE_BYTES).toString('base64url')}`;
  const [made] = await tx.$queryRaw<{ expiresAt: Date }[]>`
    INSERT INTO invitations (id, room_id, code_hash, expires_at)
    VALUES (${id}, ${roomId}, ${hashCode(code)}, clock_timestamp() + make_interval(days => ${VALID_DAYS}))
    RETURNING expires_at AS "expiresAt"`;
  return { id, code, expiresAt: (made as { expiresAt: Date }).expiresAt };
}

/**
 * Makes the author's company a guest of the room.
 * @throws NotFound when the room has no such invitation; Gone when it was used or is too old; Conflict when the company is
 * a member, or the room is closed
 */
export async function redeemInvitation(tx: Tx, roomId: string, author: Author, code: string): Promise<Member> {
  const [invitation] = await tx.$queryRaw<{ id: string; used: boolean; expired: boolean }[]>`
    SELECT id, redeemed_at IS NOT NULL AS used, expires_at <= clock_timestamp() AS expired FROM invitations
    WHERE code_hash = ${hashCode(code)} AND room_id = ${roomId} FOR NO KEY UPDATE`;
  if (!invitation) throw new NotFound('no such invitation');
  // After the lock: a statement that had to wait for it would read the room as it was before the wait.
  const isMember = await tx.roomMember.count({ where: { roomId, companyId: author.companyId, leftAt: null } });
  if (isMember > 0) throw new Conflict('the company is a member of this room');
  if (invitation.used) throw new Gone('the invitation was used');
  if (invitation.expired) throw new Gone('the invitation has expired');
  const closed = await tx.room.count({ where: { id: roomId, closedAt: { not: null } } });
  if (closed > 0) throw new Conflict('the room is closed');
  await tx.$executeRaw`
    UPDATE invitations SET redeemed_by = ${author.companyId}, redeemed_at = clock_timestamp() WHERE id = ${invitation.id}`;
  return addMember(tx, roomId, author, 'guest');
}
