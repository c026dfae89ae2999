// Invitations: a code that an admin of a guest company redeems once. Only its SHA-256 is stored; the code is shown once,
// when it is created.

import { createHash, randomBytes } from 'node:crypto';
import type { Invitation } from '../../generated/client';
import type { Author } from './room-draft';
import { Conflict, Gone, NotAllowed, NotFound } from '../db/errors';
import { newId } from '../db/ids';
import { byId, pageOf, type Page, type PageRequest } from '../db/paging';
import { addMember, lockRoomAsHost, viewRoom, type Member } from './rooms';
import type { Reader, Tx } from '../db/transaction';
import { declareLock, forNoKeyUpdate } from '../db/lock-order';
import type { Viewer } from '../access/viewer';

/** The other company has a working week to redeem a code. A forgotten code soon becomes useless. */
const VALID_DAYS = 7;
const CODE_BYTES = 32;

function hashCode(code: string): Buffer {
  return createHash('sha256').update(code, 'utf8').digest();
}

/**
 * Creates an invitation for the room's host and returns its code. The code cannot be read again.
 * @throws NotFound, NotAllowed, Conflict
 */
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
    VALUES (${id}, ${roomId}, ${hashCode(code)}, clock_ms() + make_interval(days => ${VALID_DAYS}))
    RETURNING expires_at AS "expiresAt"`;
  return { id, code, expiresAt: (made as { expiresAt: Date }).expiresAt };
}

/**
 * Makes the author's company a guest of the room.
 * @throws NotFound if the room has no such invitation; Gone if it was used or has expired; Conflict if the company is
 * a member or the room is closed
 */
export async function redeemInvitation(tx: Tx, roomId: string, author: Author, code: string): Promise<Member> {
  // A former member still has a membership row. Memberships come before invitations in the lock order.
  await tx.$queryRaw`
    SELECT 1 AS locked FROM room_members WHERE room_id = ${roomId} AND company_id = ${author.companyId}
    ${forNoKeyUpdate(tx, 'membership')}`;
  const [invitation] = await tx.$queryRaw<{ id: string; used: boolean; expired: boolean }[]>`
    SELECT id, redeemed_at IS NOT NULL AS used, expires_at <= clock_ms() AS expired FROM invitations
    WHERE code_hash = ${hashCode(code)} AND room_id = ${roomId} ${forNoKeyUpdate(tx, 'invitation')}`;
  if (!invitation) throw new NotFound('no such invitation');
  // A separate statement: a statement that waits for a lock reads the other rows as they were before the wait.
  const isMember = await tx.roomMember.count({ where: { roomId, companyId: author.companyId, leftAt: null } });
  if (isMember > 0) throw new Conflict('the company is already a member of this room');
  if (invitation.used) throw new Gone('the invitation was already used');
  if (invitation.expired) throw new Gone('the invitation has expired');
  const closed = await tx.room.count({ where: { id: roomId, closedAt: { not: null } } });
  if (closed > 0) throw new Conflict('the room is closed');
  await tx.$executeRaw`
    UPDATE invitations SET redeemed_by = ${author.companyId}, redeemed_at = clock_ms() WHERE id = ${invitation.id}`;
  return addMember(tx, roomId, author, 'guest');
}

/**
 * A room's invitations for its host, including used, expired and revoked ones.
 * @throws NotFound if the viewer is not in the room; NotAllowed if it is a guest
 */
export async function listInvitations(
  reader: Reader,
  viewer: Viewer,
  roomId: string,
  page: PageRequest,
): Promise<Page<Invitation>> {
  const { room } = await viewRoom(reader, viewer, roomId);
  if (room.hostCompanyId !== viewer.companyId) throw new NotAllowed('only the host may list the invitations');
  const { where, ...rest } = byId(page);
  const invitations = await reader.invitation.findMany({ where: { ...where, roomId }, ...rest });
  return pageOf(invitations, page, (invitation) => invitation.id);
}

/**
 * Revokes an invitation for the room's host: its code is then refused as expired. Returns false, without a change, if the
 * invitation had expired or was revoked before.
 * @throws NotFound; NotAllowed if the company is a guest; Conflict if the invitation was used or the room is closed
 */
export async function revokeInvitation(
  tx: Tx,
  roomId: string,
  companyId: string,
  invitationId: string,
): Promise<boolean> {
  await lockRoomAsHost(tx, roomId, companyId);
  // One statement, which takes the same lock as redeeming: the later of the two sees the change of the earlier.
  declareLock(tx, 'invitation');
  const revoked = await tx.$executeRaw`
    UPDATE invitations SET expires_at = created_at
    WHERE id = ${invitationId} AND room_id = ${roomId} AND redeemed_at IS NULL AND expires_at > clock_ms()`;
  if (revoked === 1) return true;
  const invitation = await tx.invitation.findUnique({ where: { id: invitationId, roomId } });
  if (!invitation) throw new NotFound('no such invitation');
  if (invitation.redeemedAt !== null) throw new Conflict('the invitation was already used; remove the member instead');
  return false;
}

/**
 * An invitation as the room's host sees it, without its code. A revoked invitation is stored with an expiry equal to its
 * creation time, which no other invitation has.
 */
export function invitationResource(invitation: Invitation): Record<string, unknown> {
  const revoked = invitation.expiresAt.getTime() === invitation.createdAt.getTime();
  return {
    id: invitation.id,
    room: invitation.roomId,
    created_at: invitation.createdAt.toISOString(),
    expires_at: revoked ? null : invitation.expiresAt.toISOString(),
    redeemed_by: invitation.redeemedBy,
    redeemed_at: invitation.redeemedAt?.toISOString() ?? null,
    revoked,
  };
}
