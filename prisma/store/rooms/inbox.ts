// What an agent with a key of its own finds waiting in a room: the tasks it was sent, and the messages that address it.

import type { Author } from './room-draft';
import { RoomDraft } from './room-draft';
import { NotFound } from '../db/errors';
import { listMessagesTo } from './messages';
import { lockRights, lockRoomForWrite } from './roster';
import { lockTasks, OPEN_TASK_STATES, startTasks, taskResource } from './tasks';
import type { Tx } from '../db/transaction';

export interface Inbox {
  /** Open ones, oldest first, all of them in progress now. */
  readonly tasks: readonly Record<string, unknown>[];
  /** There are more, which will be shown when some of these are closed. */
  readonly moreTasks: boolean;
  /** In the room's order, after the number asked for. */
  readonly messages: readonly Record<string, unknown>[];
  /** Of the last message, or the number asked for when there is none. */
  readonly lastSeq: bigint;
}

/**
 * Reads an agent's inbox, and moves the pending tasks in it to in_progress as a claim of their cards would.
 *
 * Whoever reads a task this way has taken note of it, whatever its rights: what it may do about it is asked when it does.
 * @throws NotFound when its company is no member or it is not on the roster; Conflict when the room is closed
 */
export async function readInbox(
  tx: Tx,
  roomId: string,
  agent: Author,
  page: { readonly after: bigint; readonly limit: number },
): Promise<Inbox> {
  await lockRoomForWrite(tx, roomId, agent.companyId);
  if ((await lockRights(tx, roomId, agent.id)) === null) throw new NotFound('no such room');
  const open = { roomId, recipientAgentId: agent.id, state: { in: [...OPEN_TASK_STATES] } };
  const oldest = { orderBy: { id: 'asc' }, take: page.limit + 1 } as const;
  const found = await tx.task.findMany({ where: open, ...oldest, select: { id: true, state: true } });
  const pending = found.slice(0, page.limit).flatMap((task) => (task.state === 'pending' ? [task.id] : []));
  const draft = new RoomDraft(roomId);
  if (pending.length > 0) {
    await lockTasks(tx, roomId, pending);
    await startTasks(tx, draft, pending, agent);
  }
  // Once more, after the locks: one that was answered meanwhile is not open, and one sent meanwhile is the next inbox's.
  const tasks = await tx.task.findMany({
    where: { ...open, id: { in: found.slice(0, page.limit).map((task) => task.id) } },
    orderBy: { id: 'asc' },
  });
  const { messages, lastSeq } = await listMessagesTo(tx, roomId, agent.id, page);
  if (pending.length > 0) await draft.append(tx);
  return {
    tasks: tasks.map((task) => taskResource(task)),
    moreTasks: found.length > page.limit,
    messages,
    lastSeq,
  };
}
