// What a message or task asked of an agent, asked once more: a new message or task, the caller's own, that refers to the
// old one and wakes that agent alone. Nothing is ever sent again by itself.

import type { TaskPriority, WakeState } from '../../../workflows/contract';
import type { Author, RoomDraft } from '../rooms/room-draft';
import { Conflict, NotFound } from '../db/errors';
import { messageResource, stageAddressed, type StagedMessage } from '../rooms/messages';
import { loadRoster, type RoomForWrite } from '../rooms/roster';
import { stageTask } from '../rooms/tasks';
import type { SqlTx, Reader } from '../db/transaction';
import { roomsOf, type Viewer } from '../access/viewer';

/** What a wake or run was about. */
export interface Asked {
  readonly roomId: string;
  readonly agentId: string;
  readonly messageId: string;
  readonly kind: 'text' | 'task_card' | 'response_card';
  readonly text: string;
  readonly task: {
    readonly goal: string;
    readonly acceptanceCriteria: readonly string[];
    readonly priority: TaskPriority;
    readonly deadline: string | null;
    readonly memoryRefs: readonly string[];
    readonly attachments: readonly string[];
  } | null;
}

/**
 * What a wake, or the wake of a run, asked.
 * @throws NotFound to who may not know of it; Conflict while it is still to run, or runs
 */
export async function loadAsked(
  reader: Reader,
  viewer: Viewer,
  of: { readonly wake: string } | { readonly run: string },
): Promise<Asked> {
  const id = 'wake' in of ? of.wake : (await reader.run.findUnique({ where: { id: of.run } }))?.wakeId;
  const wake = id === undefined ? null : await reader.wake.findFirst({ where: { id, room: roomsOf(viewer) } });
  if (!wake) throw new NotFound('wake' in of ? 'no such wake' : 'no such run');
  const run = await reader.run.findUnique({ where: { wakeId: wake.id }, select: { state: true } });
  const state = wake.state as WakeState;
  if (state === 'pending' || state === 'delivered' || run?.state === 'open') {
    throw new Conflict('the agent has not finished with the message yet', run?.state ?? state);
  }
  const message = await reader.message.findUniqueOrThrow({ where: { id: wake.messageId } });
  const kind = message.kind as Asked['kind'];
  const task =
    kind === 'task_card' && message.taskId !== null
      ? await reader.task.findUniqueOrThrow({ where: { id: message.taskId } })
      : null;
  return {
    roomId: wake.roomId,
    agentId: wake.agentId,
    messageId: message.id,
    kind,
    text: message.text,
    task: task === null ? null : { ...task, priority: task.priority as TaskPriority },
  };
}

/**
 * Stages it anew for the author: a task where it was a task, else a message with the same text.
 * @throws Conflict when the agent is no longer on the roster, or nothing is left to ask; as `stageTask` does
 */
export async function stageAskedAgain(
  tx: SqlTx,
  draft: RoomDraft,
  room: RoomForWrite,
  asked: Asked,
  by: { readonly author: Author; readonly hop: number },
): Promise<StagedMessage & { subjectId: string }> {
  if (asked.text.trim() === '') throw new Conflict('the message was redacted, so it cannot be asked again');
  const agent = (await loadRoster(tx, room.id)).find((each) => each.agentId === asked.agentId);
  if (!agent) throw new Conflict('the agent is no longer on the roster');
  const { author, hop } = by;
  const refersTo = asked.messageId;
  if (asked.task !== null) {
    const staged = await stageTask(tx, draft, room, {
      ...asked.task,
      sender: author,
      to: agent.slug,
      hop,
      runId: null,
      refersTo,
    });
    return { ...staged, subjectId: staged.taskId };
  }
  const message = { kind: 'text' as const, author, text: asked.text, hop, taskId: null, runId: null, refersTo };
  const staged = stageAddressed(draft, room, {
    ...message,
    addressed: [agent],
    event: (id) => ({
      type: 'message',
      data: messageResource({
        ...message,
        id,
        roomId: room.id,
        addressed: [agent.agentId],
        createdAt: null,
        redactedAt: null,
      }),
    }),
  });
  return { ...staged, subjectId: staged.messageId };
}
