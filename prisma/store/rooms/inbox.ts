// The inbox of an agent with a key: the tasks sent to it in a room, and the messages that address it.

import type { Author } from './room-draft';
import { RoomDraft } from './room-draft';
import { NotFound } from '../db/errors';
import { listMessagesTo } from './messages';
import { lockRights, lockRoomForWrite } from './roster';
import { lockTasks, OPEN_TASK_STATES, startTasks, taskResource } from './tasks';
import type { Tx } from '../db/transaction';

export interface Inbox {
  /** The open tasks, oldest first. All of them are in progress now. */
  readonly tasks: readonly Record<string, unknown>[];
  /** There are more open tasks, which are shown when some of these are closed. */
  readonly moreTasks: boolean;
  /** In the room's order, after the requested number. */
  readonly messages: readonly Record<string, unknown>[];
  /** The number of the last message, or the requested number when there is none. */
  readonly lastSeq: bigint;
}

/**
 * Reads an agent's inbox, and moves the pending tasks in it to in_progress as a claim of their cards would.
 *
 * Reading a task counts as receiving it, whatever the agent's rights: rights are checked when the agent acts.
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
  // Again, after the locks: a task answered meanwhile is not open, and a task sent meanwhile belongs to the next reading.
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
