// The acting activities without the fence: no step row and no run lock; each effect is written directly into the room. For
// tests that need a duplicate effect.

import type { Activities, ActivityDeps } from '../../activities';
import { RoomDraft, type Author } from '../../prisma/store/rooms/room-draft';
import { stageMemory } from '../../prisma/store/rooms/memory';
import { stageMessage } from '../../prisma/store/rooms/messages';
import { lockRoomForWrite, type RoomForWrite } from '../../prisma/store/rooms/roster';
import { respondToTask, stageTask } from '../../prisma/store/rooms/tasks';
import type { Tx } from '../../prisma/store/db/transaction';
import type { DeclaredReply, StepResult } from '../../workflows/contract';

interface Acting {
  readonly tx: Tx;
  readonly draft: RoomDraft;
  readonly room: RoomForWrite;
  readonly author: Author;
  readonly reply: DeclaredReply;
  /** The fields that are equal in every effect of the run. */
  readonly marks: { readonly hop: number; readonly runId: string };
  readonly messageId: string;
}

/** The same activities, but the acting ones have no fence. */
export function withoutFence(fenced: Activities, { db }: ActivityDeps): Activities {
  const acting =
    (stage: (acting: Acting) => Promise<unknown>) =>
    async ({ run: runId }: { run: string; step: string }): Promise<StepResult> => {
      const run = await db.run.findUniqueOrThrow({ where: { id: runId } });
      const agent = await db.agent.findUniqueOrThrow({ where: { id: run.agentId } });
      await db.transaction(async (tx) => {
        const room = await lockRoomForWrite(tx, run.roomId, run.companyId);
        const draft = new RoomDraft(run.roomId);
        await stage({
          tx,
          draft,
          room,
          author: { kind: 'agent', id: agent.id, name: agent.name, companyId: agent.companyId },
          reply: run.reply as unknown as DeclaredReply,
          marks: { hop: run.hop, runId },
          messageId: run.messageId,
        });
        await draft.append(tx);
      });
      return { state: 'done' };
    };

  return {
    ...fenced,
    postReply: acting(({ tx, draft, room, author, reply, marks, messageId }) =>
      stageMessage(tx, draft, room, {
        author,
        text: reply.reply ?? '',
        mentions: [],
        ...marks,
        refersTo: messageId,
      }),
    ),
    writeMemory: acting(async ({ draft, room, author, reply, marks }) => {
      if (reply.memory) stageMemory(draft, room.id, { author, ...reply.memory, runId: marks.runId });
    }),
    updateTask: acting(async ({ tx, draft, room, author, reply, marks }) => {
      for (const { task, state, result } of reply.task_updates) {
        await respondToTask(tx, draft, room, { responder: author, taskId: task, state, result, ...marks });
      }
    }),
    sendTask: acting(async ({ tx, draft, room, author, reply, marks, messageId }) => {
      for (const { to, goal, acceptance_criteria, priority, deadline } of reply.tasks_to_send) {
        await stageTask(tx, draft, room, {
          sender: author,
          to,
          goal,
          acceptanceCriteria: acceptance_criteria,
          priority,
          deadline,
          memoryRefs: [],
          attachments: [],
          ...marks,
          refersTo: messageId,
        });
      }
    }),
  };
}
