// Roster entries for the API: a company adds and changes its own, and members read them. Writers and wakes use roster.ts.

import type { Rights } from '../../../workflows/contract';
import type { Agent, RoomAgent } from '../../generated/client';
import { lockAgent } from './agents';
import { RoomDraft, type Author } from './room-draft';
import { Conflict, InvalidInput, NotAllowed, NotFound } from '../db/errors';
import { byId, pageOf, type Page, type PageRequest } from '../db/paging';
import { addToRoster, lockRoomForWrite, rightAssignments, rightsOf } from './roster';
import { declareLock } from '../db/lock-order';
import type { Reader, Tx } from '../db/transaction';

export type RosterEntry = RoomAgent & { agent: Agent };

/**
 * Adds an agent of the author's company to a room's roster and appends the event.
 * @throws NotFound if the company is not a member; InvalidInput if it has no such agent; Conflict if the agent is on the
 * roster, or its slug or name is taken there
 */
export async function addRosterEntry(
  tx: Tx,
  roomId: string,
  author: Author,
  agentId: string,
  rights: Rights,
): Promise<RosterEntry> {
  const room = await lockRoomForWrite(tx, roomId, author.companyId);
  const agent = await lockAgent(tx, author.companyId, agentId).catch((error: unknown) => {
    throw error instanceof NotFound ? new InvalidInput('no such agent', '/agent') : error;
  });
  const existing = await tx.roomAgent.findUnique({ where: { roomId_agentId: { roomId, agentId } } });
  if (existing !== null && existing.removedAt === null) throw new Conflict('the agent is on the roster');
  await addToRoster(tx, room, agent, rights);
  // Prisma would write the time of this process's clock.
  await tx.$executeRaw`
    UPDATE room_agents SET added_at = clock_ms(), private_memory = false
    WHERE room_id = ${roomId} AND agent_id = ${agentId}`;
  const entry = await loadRosterEntry(tx, roomId, agentId);
  const draft = new RoomDraft(roomId);
  draft.addEvent({ type: 'agent_added', author, subjectId: agentId, data: rosterResource(entry, 'everyone') });
  await draft.append(tx);
  return entry;
}

/**
 * Changes the rights of one of the company's agents in a room. In a run with a stored reply, the stricter right applies.
 * @throws NotFound if the company is not a member or the agent is not on the roster; NotAllowed if the agent belongs to
 * another company
 */
export async function updateRosterEntry(
  tx: Tx,
  roomId: string,
  companyId: string,
  agentId: string,
  change: { readonly rights: Partial<Rights>; readonly privateMemory: boolean | undefined },
): Promise<RosterEntry> {
  await lockRoomForWrite(tx, roomId, companyId);
  const entry = await loadRosterEntry(tx, roomId, agentId);
  if (entry.agent.companyId !== companyId) throw new NotAllowed("only the agent's company may set its rights");
  declareLock(tx, 'roster');
  await tx.$executeRaw`
    UPDATE room_agents SET ${rightAssignments(change.rights)},
                           private_memory = coalesce(${change.privateMemory ?? null}::boolean, private_memory)
    WHERE room_id = ${roomId} AND agent_id = ${agentId}`;
  return loadRosterEntry(tx, roomId, agentId);
}

/** Reads one roster entry. @throws NotFound if the agent is not on the roster */
export async function loadRosterEntry(reader: Reader, roomId: string, agentId: string): Promise<RosterEntry> {
  const entry = await reader.roomAgent.findUnique({
    where: { roomId_agentId: { roomId, agentId }, removedAt: null },
    include: { agent: true },
  });
  if (!entry) throw new NotFound('no such agent on the roster');
  return entry;
}

/** The agents on a room's roster, by id. */
export async function listRosterEntries(reader: Reader, roomId: string, page: PageRequest): Promise<Page<RosterEntry>> {
  const { where, take } = byId(page);
  const entries = await reader.roomAgent.findMany({
    where: { roomId, removedAt: null, ...(where.id && { agentId: where.id }) },
    orderBy: { agentId: page.order },
    include: { agent: true },
    take,
  });
  return pageOf(entries, page, (entry) => entry.agentId);
}

/** An agent on a roster, as its own company (`company`) or everyone in the room may see it. */
export function rosterResource(entry: RosterEntry, reader: 'company' | 'everyone'): Record<string, unknown> {
  const shown = {
    room: entry.roomId,
    agent: entry.agentId,
    slug: entry.agent.slug,
    name: entry.agent.name,
    company: entry.agent.companyId,
    added_at: entry.addedAt.toISOString(),
  };
  if (reader === 'everyone') return shown;
  return { ...shown, rights: rightsOf(entry), private_memory: entry.privateMemory };
}
