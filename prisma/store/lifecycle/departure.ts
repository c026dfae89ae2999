// Removes an agent, ends a membership, or closes a room. All content stays; open runs end with an event. Each function first
// locks membership rows, so it waits for a claim or step in progress, and a later one sees the change.

import { Prisma } from '../../generated/client';
import { cancelOpenRuns, RoomDrafts } from '../runs/run-cancel';
import type { Author } from '../rooms/room-draft';
import { Conflict, NotAllowed, NotFound } from '../db/errors';
import { declareLock, forNoKeyUpdate } from '../db/lock-order';
import type { Tx } from '../db/transaction';

/**
 * Removes an agent from a roster and cancels its open runs there. Allowed for the agent's company and for the host.
 * @throws NotFound if the caller is not a member or the agent is not on the roster; NotAllowed; Conflict if the room is
 * closed
 */
export async function removeFromRoster(tx: Tx, roomId: string, by: Author, agentId: string): Promise<string> {
  const [agent] = await tx.$queryRaw<{ companyId: string }[]>`
    SELECT a.company_id AS "companyId" FROM room_agents ra JOIN agents a ON a.id = ra.agent_id
    WHERE ra.room_id = ${roomId} AND ra.agent_id = ${agentId}`;
  const companies = agent ? [by.companyId, agent.companyId] : [by.companyId];
  const room = await lockMembers(tx, roomId, by, Prisma.sql`company_id = ANY(${companies}::text[])`);
  if (!agent) throw new NotFound('no such agent on the roster');
  if (agent.companyId !== by.companyId && room.host !== by.companyId) {
    throw new NotAllowed("only the agent's company or the host may remove it");
  }
  const drafts = new RoomDrafts();
  const removed = await removeAgents(tx, drafts, roomId, by, Prisma.sql`a.id = ${agentId}`);
  if (removed === 0) throw new NotFound('no such agent on the roster');
  const ofAgent = Prisma.sql`room_id = ${roomId} AND agent_id = ${agentId}`;
  await cancelOpenRuns(tx, drafts, ofAgent, { by: by.id, why: 'agent_removed' });
  await drafts.append(tx);
  return agent.companyId;
}

/**
 * Ends a company's membership: removes its agents from the roster and cancels its open runs. Allowed for the company itself
 * and for the host. The host cannot leave its own room.
 * @throws NotFound if the caller or the company is not a member; NotAllowed; Conflict
 */
export async function leaveRoom(tx: Tx, roomId: string, by: Author, companyId: string): Promise<void> {
  const room = await lockMembers(tx, roomId, by, Prisma.sql`company_id = ANY(${[by.companyId, companyId]}::text[])`);
  if (room.host === companyId) throw new Conflict('the host cannot leave its own room; it can close the room');
  if (by.companyId !== companyId && room.host !== by.companyId) {
    throw new NotAllowed('only the company itself or the host may end a membership');
  }
  const left = await tx.$executeRaw`
    UPDATE room_members SET left_at = clock_ms()
    WHERE room_id = ${roomId} AND company_id = ${companyId} AND left_at IS NULL`;
  if (left === 0) throw new NotFound('no such member of this room');
  const drafts = new RoomDrafts();
  await removeAgents(tx, drafts, roomId, by, Prisma.sql`a.company_id = ${companyId}`);
  const ofCompany = Prisma.sql`room_id = ${roomId} AND company_id = ${companyId}`;
  await cancelOpenRuns(tx, drafts, ofCompany, { by: by.id, why: 'member_left' });
  const data = { room: roomId, company: companyId };
  drafts.of(roomId).addEvent({ type: 'member_left', author: by, subjectId: companyId, data });
  await drafts.append(tx);
}

/**
 * Closes a room permanently: its open runs are cancelled, no write is accepted, and its content stays readable.
 * @throws NotFound if the caller is not a member; NotAllowed if it is a guest; Conflict if the room is closed
 */
export async function closeRoom(tx: Tx, roomId: string, by: Author): Promise<void> {
  const room = await lockMembers(tx, roomId, by, Prisma.sql`true`);
  if (room.host !== by.companyId) throw new NotAllowed('only the host may close the room');
  const drafts = new RoomDrafts();
  await cancelOpenRuns(tx, drafts, Prisma.sql`room_id = ${roomId}`, { by: by.id, why: 'room_closed' });
  drafts.of(roomId).addEvent({ type: 'room_closed', author: by, subjectId: roomId, data: { room: roomId } });
  await drafts.append(tx);
  await tx.$executeRaw`UPDATE rooms SET closed_at = clock_ms() WHERE id = ${roomId}`;
}

// Locks the matching memberships, which every claim, step and post locks for sharing, and then reads the room.
async function lockMembers(tx: Tx, roomId: string, by: Author, members: Prisma.Sql): Promise<{ host: string }> {
  await tx.$queryRaw`
    SELECT 1 AS locked FROM room_members WHERE room_id = ${roomId} AND ${members}
    ORDER BY company_id ${forNoKeyUpdate(tx, 'membership')}`;
  const [room] = await tx.$queryRaw<{ host: string; closed: boolean }[]>`
    SELECT r.host_company_id AS host, r.closed_at IS NOT NULL AS closed FROM rooms r
    JOIN room_members m ON m.room_id = r.id AND m.company_id = ${by.companyId} AND m.left_at IS NULL
    WHERE r.id = ${roomId}`;
  if (!room) throw new NotFound('no such room');
  if (room.closed) throw new Conflict('the room is closed');
  return room;
}

// Removes the matching agents and releases their names on the roster. The update waits for a claim in progress.
async function removeAgents(
  tx: Tx,
  drafts: RoomDrafts,
  roomId: string,
  by: Author,
  agents: Prisma.Sql,
): Promise<number> {
  declareLock(tx, 'roster');
  const removed = await tx.$queryRaw<{ id: string; slug: string; name: string; companyId: string }[]>`
    UPDATE room_agents SET removed_at = clock_ms() FROM agents a
    WHERE a.id = room_agents.agent_id AND room_id = ${roomId} AND removed_at IS NULL AND ${agents}
    RETURNING a.id, a.slug, a.name, a.company_id AS "companyId"`;
  const ids = removed.map((agent) => agent.id);
  await tx.$executeRaw`DELETE FROM roster_names WHERE room_id = ${roomId} AND agent_id = ANY(${ids}::text[])`;
  for (const { id, slug, name, companyId } of removed.sort((a, b) => (a.id < b.id ? -1 : 1))) {
    const data = { room: roomId, agent: id, slug, name, company: companyId };
    drafts.of(roomId).addEvent({ type: 'agent_removed', author: by, subjectId: id, data });
  }
  return removed.length;
}
