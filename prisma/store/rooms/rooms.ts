// Rooms and the companies in them. Invitations are in invitations.ts, and agents in roster.ts.

import type { OnCrash } from '../../../workflows/contract';
import type { Company, Room, RoomMember } from '../../generated/client';
import { RoomDraft, type Author } from './room-draft';
import { Conflict, NotAllowed, NotFound } from '../db/errors';
import { newId } from '../db/ids';
import { byId, pageOf, type Page, type PageRequest } from '../db/paging';
import { lockRoomForWrite } from './roster';
import type { Reader, Tx } from '../db/transaction';
import { declareLock } from '../db/lock-order';
import { roomsOf, type Viewer } from '../access/viewer';

export interface RoomSettings {
  readonly name: string;
  readonly onCrash: OnCrash;
  readonly hopLimit: number;
  readonly runAllowance: number;
}

/** The highest hop limit of a room. A CHECK constraint has the same bound. */
export const HOP_LIMIT_MAX = 64;
/** The highest run allowance of a room: the maximum of a Postgres integer. */
export const RUN_ALLOWANCE_MAX = 2_147_483_647;

export type Member = RoomMember & { company: Company };

/** A room, as one viewer may see it. */
export interface ViewedRoom {
  readonly room: Room;
  /** True if the viewer may read its company's private memory in this room. */
  readonly seesPrivate: boolean;
}

/** Creates a room whose first member and host is the author's company. @throws Conflict when the slug is taken */
export async function createRoom(
  tx: Tx,
  author: Author,
  room: RoomSettings & { readonly slug: string },
): Promise<Room> {
  const id = newId('room');
  const created = await tx.$executeRaw`
    INSERT INTO rooms (id, slug, name, host_company_id, on_crash, hop_limit, run_allowance)
    VALUES (${id}, ${room.slug}, ${room.name}, ${author.companyId}, ${room.onCrash}, ${room.hopLimit},
            ${room.runAllowance})
    ON CONFLICT (host_company_id, slug) DO NOTHING`;
  if (created === 0) throw new Conflict('the company already has a room with this slug');
  await addMember(tx, id, author, 'host');
  return tx.room.findUniqueOrThrow({ where: { id } });
}

/**
 * Makes the author's company a member, also after it left, and appends the event.
 *
 * It takes the room's lock, so it must be the last call of its transaction.
 * @throws Conflict if the company is a member
 */
export async function addMember(tx: Tx, roomId: string, author: Author, role: 'host' | 'guest'): Promise<Member> {
  const joined = await tx.$executeRaw`
    INSERT INTO room_members (room_id, company_id, role) VALUES (${roomId}, ${author.companyId}, ${role})
    ON CONFLICT (room_id, company_id) DO UPDATE SET left_at = NULL, joined_at = clock_ms()
      WHERE room_members.left_at IS NOT NULL`;
  if (joined === 0) throw new Conflict('the company is already a member of this room');
  const member = await tx.roomMember.findUniqueOrThrow({
    where: { roomId_companyId: { roomId, companyId: author.companyId } },
    include: { company: true },
  });
  const draft = new RoomDraft(roomId);
  draft.addEvent({ type: 'member_joined', author, subjectId: author.companyId, data: memberResource(member) });
  await draft.append(tx);
  return member;
}

/** Reads a room, as the viewer may see it. @throws NotFound also if the viewer is not in the room */
export async function viewRoom(reader: Reader, viewer: Viewer, roomId: string): Promise<ViewedRoom> {
  const room = await reader.room.findFirst({
    where: { id: roomId, ...roomsOf(viewer) },
    include: { roster: { where: { agentId: viewer.agentId ?? '' } } },
  });
  if (!room) throw new NotFound('no such room');
  const { roster, ...rest } = room;
  return { room: rest, seesPrivate: viewer.agentId === null || roster[0]?.privateMemory === true };
}

/** The rooms that a viewer is in. */
export async function listRooms(reader: Reader, viewer: Viewer, page: PageRequest): Promise<Page<Room>> {
  const { where, ...rest } = byId(page);
  return pageOf(
    await reader.room.findMany({ where: { ...where, ...roomsOf(viewer) }, ...rest }),
    page,
    (room) => room.id,
  );
}

/**
 * Locks the membership of a room's host.
 * @throws NotFound if the company is not a member; NotAllowed if it is a guest; Conflict if the room is closed
 */
export async function lockRoomAsHost(tx: Tx, roomId: string, companyId: string): Promise<void> {
  await lockRoomForWrite(tx, roomId, companyId);
  const hosted = await tx.room.count({ where: { id: roomId, hostCompanyId: companyId } });
  if (hosted === 0) throw new NotAllowed('only the host may change the room');
}

/** Changes a room's settings for its host. @throws NotFound, NotAllowed, Conflict */
export async function updateRoom(
  tx: Tx,
  roomId: string,
  companyId: string,
  change: { readonly [K in keyof RoomSettings]: RoomSettings[K] | undefined },
): Promise<Room> {
  await lockRoomAsHost(tx, roomId, companyId);
  declareLock(tx, 'room');
  await tx.$executeRaw`
    UPDATE rooms SET name = coalesce(${change.name ?? null}, name), on_crash = coalesce(${change.onCrash ?? null}, on_crash),
                     hop_limit = coalesce(${change.hopLimit ?? null}::int, hop_limit),
                     run_allowance = coalesce(${change.runAllowance ?? null}::int, run_allowance)
    WHERE id = ${roomId}`;
  return tx.room.findUniqueOrThrow({ where: { id: roomId } });
}

/** The companies in a room, by id. */
export async function listMembers(reader: Reader, roomId: string, page: PageRequest): Promise<Page<Member>> {
  const { where, take } = byId(page);
  const members = await reader.roomMember.findMany({
    where: { roomId, leftAt: null, ...(where.id && { companyId: where.id }) },
    orderBy: { companyId: page.order },
    include: { company: true },
    take,
  });
  return pageOf(members, page, (member) => member.companyId);
}

/** A room as its members see it. */
export function roomResource(room: Room): Record<string, unknown> {
  return {
    id: room.id,
    slug: room.slug,
    name: room.name,
    host: room.hostCompanyId,
    on_crash: room.onCrash,
    hop_limit: room.hopLimit,
    run_allowance: room.runAllowance,
    last_seq: Number(room.lastSeq),
    created_at: room.createdAt.toISOString(),
    paused_at: room.pausedAt?.toISOString() ?? null,
    closed_at: room.closedAt?.toISOString() ?? null,
  };
}

/** A company in a room, as its members see it. */
export function memberResource(member: Member): Record<string, unknown> {
  return {
    room: member.roomId,
    company: member.companyId,
    slug: member.company.slug,
    name: member.company.name,
    role: member.role,
    joined_at: member.joinedAt.toISOString(),
  };
}
