// Repeats a message or task for an agent: a new message or task by the caller, which refers to the old one and wakes only
// that agent. It happens only on request, never automatically.

import type { TaskPriority, WakeState } from '../../../workflows/contract';
import type { Author, RoomDraft } from '../rooms/room-draft';
import { Conflict, NotFound } from '../db/errors';
import { messageResource, stageAddressed, type StagedMessage } from '../rooms/messages';
import { loadRoster, type RoomForWrite } from '../rooms/roster';
import { stageTask } from '../rooms/tasks';
import type { SqlTx, Reader } from '../db/transaction';
import { roomsOf, type Viewer } from '../access/viewer';

/** The message or task that caused a wake or run. */
export interface OriginalRequest {
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
 * Reads the message or task that caused a wake, or the wake of a run.
 * @throws NotFound also if the viewer may not see it; Conflict if its run has not ended
 */
export async function loadOriginalRequest(
  reader: Reader,
  viewer: Viewer,
  of: { readonly wake: string } | { readonly run: string },
): Promise<OriginalRequest> {
  const id = 'wake' in of ? of.wake : (await reader.run.findUnique({ where: { id: of.run } }))?.wakeId;
  const wake = id === undefined ? null : await reader.wake.findFirst({ where: { id, room: roomsOf(viewer) } });
  if (!wake) throw new NotFound('wake' in of ? 'no such wake' : 'no such run');
  const run = await reader.run.findUnique({ where: { wakeId: wake.id }, select: { state: true } });
  const state = wake.state as WakeState;
  if (state === 'pending' || state === 'delivered' || run?.state === 'open') {
    throw new Conflict('the agent has not finished with the message yet', run?.state ?? state);
  }
  const message = await reader.message.findUniqueOrThrow({ where: { id: wake.messageId } });
  const kind = message.kind as OriginalRequest['kind'];
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
 * Stages a task again as a new task of the author, and a message as a new message with the same text.
 * @throws Conflict if the agent is no longer on the roster or the message was redacted; the errors of `stageTask`
 */
export async function stageRepeatedRequest(
  tx: SqlTx,
  draft: RoomDraft,
  room: RoomForWrite,
  asked: OriginalRequest,
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
