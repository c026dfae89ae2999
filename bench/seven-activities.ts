// The seven activities of the comparison. Each is one transaction with the store's functions and the same fence; only the
// amount of work per activity differs from the product.

import { Context } from '@temporalio/activity';
import { createClaimMessage } from '../activities/claim';
import { createCloseRun } from '../activities/close';
import { renderContext } from '../activities/context/render';
import { currentExecution, type ActivityDeps } from '../activities/deps';
import { writeRequest } from '../activities/model/provider';
import { insertStep } from '../prisma/store/runs/run-closing';
import { RoomDraft } from '../prisma/store/rooms/room-draft';
import { Fenced } from '../prisma/store/db/errors';
import { stageMessage } from '../prisma/store/rooms/messages';
import { modelKeyBinding } from '../prisma/store/model-keys/model-keys';
import {
  claimRequest,
  endRequest,
  type RenderedContext,
  type RequestResult,
} from '../prisma/store/runs/model-requests';
import { readRoom } from '../prisma/store/runs/relevance';
import { lockOwnedRun } from '../prisma/store/runs/fence';
import type { PipelineTx } from '../prisma/store/db/transaction';
import { declaredKinds, planSteps } from '../workflows/policy/steps';

/** The model key of the bench is never rejected. */
const NO_KEY = { keyId: null, keyVersion: null };

export type SevenActivities = ReturnType<typeof createSevenActivities>;

interface OfRun {
  readonly run: string;
}

interface Target {
  readonly model: string;
  readonly keyId: string;
  readonly baseUrl: string;
  readonly sealedSecret: string;
  readonly context: RenderedContext;
}

export function createSevenActivities(deps: ActivityDeps) {
  const { db } = deps;
  return {
    claimMessage: createClaimMessage(deps),

    readRoom: ({ run }: OfRun): Promise<void> =>
      db.sqlTransaction(async (tx) => {
        const { run: locked } = await fence(tx, run);
        const { context, manifest } = renderContext(await readRoom(tx, locked));
        await tx.$executeRaw`
          UPDATE runs SET context = ${JSON.stringify(context)}::jsonb, manifest = ${JSON.stringify(manifest)}::jsonb
          WHERE id = ${run}`;
      }),

    claimModelRequest: async ({ run }: OfRun): Promise<{ number: number }> => {
      const claim = await claimRequest(db, currentExecution(), run, () => {
        throw new Error('the room must be read first');
      });
      if (claim.kind !== 'send') throw new Error(`the request was not granted: ${claim.kind}`);
      return { number: claim.number };
    },

    askModel: async ({ run }: OfRun): Promise<RequestResult> => {
      const target = await db.sqlTransaction(async (tx) => {
        const [row] = await tx.$queryRaw<Target[]>`
          SELECT a.model, k.id AS "keyId", k.base_url AS "baseUrl", k.sealed_secret AS "sealedSecret", r.context
          FROM runs r JOIN agents a ON a.id = r.agent_id JOIN model_keys k ON k.id = a.model_key_id
          WHERE r.id = ${run}`;
        return row;
      });
      if (!target) throw new Error('the agent has no model');
      const { model, baseUrl, context } = target;
      const apiKey = deps.secretBox.open(target.sealedSecret, modelKeyBinding(target.keyId, baseUrl));
      const request = writeRequest({ protocol: 'openai_compatible', baseUrl, model, ownerSupplied: false }, context);
      const answer = await deps.requestReply(request, apiKey, {
        signal: Context.current().cancellationSignal,
        timeoutMs: 8_000,
      });
      if (answer.kind !== 'reply') throw new Error(`the model did not reply: ${answer.kind}`);
      return {
        ...answer.usage,
        outcome: 'answered',
        code: null,
        httpStatus: null,
        providerCode: null,
        namedWaitMs: null,
        reply: answer.reply,
      };
    },

    storeReply: async (input: OfRun & { number: number; result: RequestResult }): Promise<{ sha256: string }> => {
      const stored = await endRequest(db, currentExecution(), input.run, input.number, input.result, NO_KEY);
      if (stored === null) throw new Error('no reply was stored');
      return { sha256: stored.sha256 };
    },

    postReply: ({ run }: OfRun): Promise<{ message: string }> =>
      db.sqlTransaction(async (tx) => {
        const { run: locked, runContext, done } = await fence(tx, run);
        const recorded = done.find((step) => step.key === 'reply');
        if (recorded?.effectId) return { message: recorded.effectId };
        const { reply } = locked;
        const step = reply === null ? undefined : planSteps(declaredKinds(reply))[0];
        if (!step || !reply?.reply) throw new Error('there is no reply to post');
        const draft = new RoomDraft(locked.roomId);
        const { messageId } = await stageMessage(tx, draft, runContext.room, {
          author: runContext.author,
          text: reply.reply,
          mentions: [],
          hop: locked.hop,
          runId: run,
          refersTo: locked.messageId,
        });
        await insertStep(tx, run, step, { key: step.key, state: 'done', code: null, effectId: messageId });
        await draft.append(tx);
        return { message: messageId };
      }),

    closeRun: createCloseRun(deps),
  };
}

async function fence(tx: PipelineTx, run: string) {
  const own = await lockOwnedRun(tx, currentExecution(), run);
  if (!own) throw new Fenced('not_mine');
  if (own.run.state === 'closed') throw new Fenced('closed');
  return own;
}
