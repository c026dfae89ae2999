// The viewer of a room: a member company, or one of its agents with an agent key, which sees only the rooms of the
// agent.

import { Prisma } from '../../generated/client';
import { IS_LIVE } from './keys';
import type { PageRequest } from '../db/paging';
import type { Reader } from '../db/transaction';

export interface Viewer {
  readonly companyId: string;
  /** Null: the viewer is a person or a service of the company. */
  readonly agentId: string | null;
}

/** The rooms that a viewer may see. */
export function roomsOf(viewer: Viewer): Prisma.RoomWhereInput {
  return {
    members: { some: { companyId: viewer.companyId, leftAt: null } },
    ...(viewer.agentId !== null && { roster: { some: { agentId: viewer.agentId, removedAt: null } } }),
  };
}

/**
 * The rooms that the viewer of a stream may read now, with their newest seq. No row after its key is revoked or its
 * company is suspended. In SQL, so that the statement that reads the events also checks the access.
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
 * The ids of the wakes or runs of a page in the viewer's rooms, and one more, which shows whether there is a next page.
 *
 * Reads the ids of each room by an index: a scan of all ids would read the rows of all other tenants.
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

/** A condition that a column has this value, or `true` without a value. */
export function equals(column: Prisma.Sql, value: string | undefined): Prisma.Sql {
  return value === undefined ? Prisma.sql`true` : Prisma.sql`${column} = ${value}`;
}

/**
 * The time of a run `t` for a viewing company. For its own run, the time of the claim. For a run of another company,
 * the time of the message that woke it: a filter by time then reveals nothing that is not visible in the room.
 */
export function runTime(companyId: string): Prisma.Sql {
  return Prisma.sql`
    (CASE WHEN t.company_id = ${companyId} THEN t.claimed_at
          ELSE (SELECT message.created_at FROM messages message WHERE message.id = t.message_id) END)`;
}
