// The steps of a job in ways 1 to 3, with the store functions of the product's activities and with kill points. No step is
// safe to repeat; each way protects them differently.

import { Context } from '@temporalio/activity';
import type { ActivityDeps } from '../../activities';
import { renderContext } from '../../activities/context/render';
import { writeRequest } from '../../activities/model/provider';
import { RoomDraft, type Author } from '../../prisma/store/rooms/room-draft';
import { stageMemory } from '../../prisma/store/rooms/memory';
import { stageMessage } from '../../prisma/store/rooms/messages';
import { modelKeyBinding } from '../../prisma/store/model-keys/model-keys';
import { readRoom } from '../../prisma/store/runs/relevance';
import { lockRoomForWrite, type RoomForWrite } from '../../prisma/store/rooms/roster';
import { stageTask } from '../../prisma/store/rooms/tasks';
import { inStatement } from '../../prisma/store/db/sql-errors';
import type { Tx } from '../../prisma/store/db/transaction';
import type { LabContext, LabInput, LabReply } from './messages';
import type { Effect } from './points';
import { currentWorkflowId, watchRequests, type Pass } from './traps';

export type JobSteps = ReturnType<typeof createJobSteps>;

interface Target {
  readonly model: string;
  readonly keyId: string;
  readonly baseUrl: string;
  readonly sealedSecret: string;
}

export function createJobSteps({ db, secretBox, requestReply }: ActivityDeps, pass: Pass) {
  const ask = watchRequests(requestReply, pass);

  /** One effect in one transaction, with a kill point before and after the commit. */
  const act = async (
    step: Effect,
    job: LabInput,
    stage: (tx: Tx, draft: RoomDraft, room: RoomForWrite, author: Author) => Promise<unknown>,
  ): Promise<void> => {
    await db.transaction(async (tx) => {
      const room = await lockRoomForWrite(tx, job.roomId, job.companyId);
      const draft = new RoomDraft(job.roomId);
      await stage(tx, draft, room, { kind: 'agent', id: job.agentId, name: job.agentName, companyId: job.companyId });
      await draft.append(tx);
      await pass(`${step}:inside`, currentWorkflowId());
    });
    await pass(`${step}:between`, currentWorkflowId());
  };

  return {
    read: async (job: LabInput): Promise<LabContext> => {
      const context = await db.transaction(async (tx) => {
        const view = await readRoom(tx, job);
        await pass('read:inside', currentWorkflowId());
        return renderContext(view).context;
      });
      await pass('read:between', currentWorkflowId());
      return context;
    },

    ask: async (job: LabInput, context: LabContext): Promise<LabReply> => {
      const [target] = await inStatement(db.$queryRaw<Target[]>`
        SELECT a.model, k.id AS "keyId", k.base_url AS "baseUrl", k.sealed_secret AS "sealedSecret"
        FROM agents a JOIN model_keys k ON k.id = a.model_key_id WHERE a.id = ${job.agentId}`);
      if (!target) throw new Error('the agent has no model');
      const { model, baseUrl } = target;
      const apiKey = secretBox.open(target.sealedSecret, modelKeyBinding(target.keyId, baseUrl));
      const request = writeRequest({ protocol: 'openai_compatible', baseUrl, model, ownerSupplied: false }, context);
      const answer = await ask(request, apiKey, {
        signal: Context.current().cancellationSignal,
        timeoutMs: job.attemptMs,
      });
      if (answer.kind !== 'reply') throw new Error(`the model did not reply: ${answer.kind}`);
      return answer.reply;
    },

    post: (job: LabInput, { reply }: LabReply): Promise<void> =>
      act('post', job, async (tx, draft, room, author) => {
        if (reply === null) throw new Error('the reply has no text');
        await stageMessage(tx, draft, room, {
          author,
          text: reply,
          mentions: [],
          hop: 1,
          runId: job.messageId,
          refersTo: job.messageId,
        });
      }),

    remember: (job: LabInput, { memory }: LabReply): Promise<void> =>
      act('memory', job, async (_tx, draft, _room, author) => {
        if (memory === null) throw new Error('the reply declares no memory entry');
        stageMemory(draft, job.roomId, { author, ...memory, runId: job.messageId });
      }),

    send: (job: LabInput, { tasks_to_send: [task] }: LabReply): Promise<void> =>
      act('task', job, async (tx, draft, room, sender) => {
        if (!task) throw new Error('the reply declares no task');
        await stageTask(tx, draft, room, {
          sender,
          to: task.to,
          goal: task.goal,
          acceptanceCriteria: task.acceptance_criteria,
          priority: task.priority,
          deadline: task.deadline,
          memoryRefs: [],
          attachments: [],
          hop: 1,
          runId: job.messageId,
          refersTo: job.messageId,
        });
      }),
  };
}
