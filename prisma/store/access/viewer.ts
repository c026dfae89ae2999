// Who looks at a room: a member company, or one of its agents with a key of its own, which sees only its rooms.

import { Prisma } from '../../generated/client';
import { IS_LIVE } from './keys';
import type { PageRequest } from '../db/paging';
import type { Reader } from '../db/transaction';

export interface Viewer {
  readonly companyId: string;
  /** Null: a person or a service of the company looks. */
  readonly agentId: string | null;
}

/** The rooms that a viewer may know of. */
export function roomsOf(viewer: Viewer): Prisma.RoomWhereInput {
  return {
    members: { some: { companyId: viewer.companyId, leftAt: null } },
    ...(viewer.agentId !== null && { roster: { some: { agentId: viewer.agentId, removedAt: null } } }),
  };
}

/**
 * The rooms that a stream's viewer may read at this moment, with their newest number: no row once its key is revoked or its
 * company suspended. In SQL, so that it is asked in the very statement that reads what is sent.
 */
export function streamedRooms(viewer: Viewer, keyId: string, roomId: string | null): Prisma.Sql {
  return Prisma.sql`
    SELECT r.id, r.last_seq, (${viewer.agentId}::text IS NULL OR ra.private_memory) AS sees_private
    FROM api_keys k
    JOIN companies c ON c.id = ${viewer.companyId} AND c.suspended_at IS NULL
    JOIN room_members m ON m.company_id = c.id AND m.left_at IS NULL
    JOIN rooms r ON r.id = m.room_id
    LEFT JOIN room_agents ra ON ra.room_id = r.id AND ra.agent_id = ${viewer.agentId} AND ra.removed_at IS NULL
    WHERE k.id = ${keyId} AND ${IS_LIVE} AND (${roomId}::text IS NULL OR r.id = ${roomId})
      AND (${viewer.agentId}::text IS NULL OR ra.agent_id IS NOT NULL)`;
}

/**
 * Ids of the wakes or runs in the viewer's rooms that a page needs, and one more to know whether there is a next.
 *
 * Reads each room's share by its own index: a walk along all ids would pass over every other tenant's.
 * `filter` is a condition on `t`.
 */
export async function listIdsInRooms(
  reader: Reader,
  table: 'wakes' | 'runs',
  viewer: Viewer,
  roomId: string | undefined,
  filter: Prisma.Sql,
  page: PageRequest,
): Promise<string[]> {
  const [order, beyond] = page.order === 'asc' ? [Prisma.sql`ASC`, Prisma.sql`>`] : [Prisma.sql`DESC`, Prisma.sql`<`];
  const keyset = page.after === null ? Prisma.empty : Prisma.sql`AND t.id ${beyond} ${page.after}`;
  const take = page.limit + 1;
  const rows = await reader.$queryRaw<{ id: string }[]>`
    SELECT x.id
    FROM room_members m
    CROSS JOIN LATERAL (
      SELECT t.id FROM ${Prisma.raw(table)} t WHERE t.room_id = m.room_id AND ${filter} ${keyset}
      ORDER BY t.id ${order} LIMIT ${take}
    ) x
    WHERE m.company_id = ${viewer.companyId} AND m.left_at IS NULL
      AND (${roomId ?? null}::text IS NULL OR m.room_id = ${roomId ?? null})
      AND (${viewer.agentId}::text IS NULL OR EXISTS (
        SELECT FROM room_agents ra
        WHERE ra.room_id = m.room_id AND ra.agent_id = ${viewer.agentId} AND ra.removed_at IS NULL))
    ORDER BY x.id ${order} LIMIT ${take}`;
  return rows.map((row) => row.id);
}

/** A condition that holds where a column has this value, or always when none is asked for. */
export function equals(column: Prisma.Sql, value: string | undefined): Prisma.Sql {
  return value === undefined ? Prisma.sql`true` : Prisma.sql`${column} = ${value}`;
}

/**
 * When a run `t` counts as having been, for a viewing company: its own at the claim; another's, whose claim it may not
 * know the time of, at the message that woke it, which stands in the room. No stretch of time then tells more than the room.
 */
export function runTime(companyId: string): Prisma.Sql {
  return Prisma.sql`
    (CASE WHEN t.company_id = ${companyId} THEN t.claimed_at
          ELSE (SELECT message.created_at FROM messages message WHERE message.id = t.message_id) END)`;
}
