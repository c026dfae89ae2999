// The right of a caller to write to a room: its membership and, for an agent's key, the agent's rights there.

import { NotAllowed, NotFound } from '../../prisma/store/db/errors';
import type { SqlTx } from '../../prisma/store/db/transaction';
import { hopOfAgentPost } from '../../prisma/store/rooms/messages';
import type { Author } from '../../prisma/store/rooms/room-draft';
import { lockRights, lockRoomForWrite, type RoomForWrite } from '../../prisma/store/rooms/roster';
import type { StepKind, Rights } from '../../workflows/contract';
import { authorOf, type CompanyCaller } from './caller';

/** A caller that may write to a room. Its membership and its agent's rights are locked until the transaction ends. */
export interface Poster {
  readonly author: Author;
  readonly room: RoomForWrite;
  /** The rights of the agent that the key belongs to; null for people and services. */
  readonly rights: Rights | null;
  /**
   * The hop of what the caller posts: 0, or for an agent's key one above the newest message that addresses the agent.
   */
  readonly hop: number;
}

/** @throws NotFound when the caller is not in the room; Conflict when the room is closed */
export async function admitPoster(tx: SqlTx, roomId: string, caller: CompanyCaller): Promise<Poster> {
  const author = authorOf(caller);
  const room = await lockRoomForWrite(tx, roomId, caller.companyId);
  if (caller.kind !== 'agent') return { author, room, rights: null, hop: 0 };
  const rights = await lockRights(tx, roomId, caller.agentId);
  if (rights === null) throw new NotFound('no such room');
  return { author, room, rights, hop: await hopOfAgentPost(tx, roomId, caller.agentId) };
}

/**
 * Refuses an action for which the agent does not have the right "go". A run would hold such an action; a key is
 * refused.
 * @throws NotAllowed
 */
export function requireRight({ rights }: Pick<Poster, 'rights'>, kind: StepKind): void {
  if (rights === null || rights[kind] === 'go') return;
  throw new NotAllowed(`this agent's right to ${kind} is "${rights[kind]}" in this room`);
}
