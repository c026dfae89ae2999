// The inbox of an agent with a key: the tasks sent to it in a room, and the messages that address it.

import type { Author } from './room-draft';
import { RoomDraft } from './room-draft';
import { NotFound } from '../db/errors';
import { listMessagesTo } from './messages';
import { lockRights, lockRoomForWrite } from './roster';
import { lockTasks, OPEN_TASK_STATES, startTasks, taskResource } from './tasks';
import type { Tx } from '../db/transaction';

export interface Inbox {
  /** The open tasks, oldest first. All are in_progress after the read. */
  readonly tasks: readonly Record<string, unknown>[];
  /** True if there are more open tasks. They are shown after some of these tasks are closed. */
  readonly moreTasks: boolean;
  /** The messages after the requested number, in the room's order. */
  readonly messages: readonly Record<string, unknown>[];
  /** The number of the last message, or the requested number when there is none. */
  readonly lastSeq: bigint;
}

/**
 * Reads an agent's inbox and moves its pending tasks to in_progress, as a claim of their cards does.
 *
 * The agent needs no right to receive a task. Rights are checked when the agent acts.
 * @throws NotFound if the company is not a member or the agent is not on the roster; Conflict if the room is closed
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
  // Read again after the locks: a task may have been answered meanwhile. A task sent meanwhile is left to the next read.
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
