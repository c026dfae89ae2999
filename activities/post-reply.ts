// The first acting step: the reply reaches the room.

import { InvalidInput } from '../prisma/store/db/errors';
import { stageMessage } from '../prisma/store/rooms/messages';
import type { StepResult } from '../workflows/contract';
import type { ActivityDeps } from './deps';
import { notThisKind, executeStep, type StepInput } from './step';

/** Posts the reply, at most once for all time, one hop above the message that woke the run. */
export function createPostReply({ db }: ActivityDeps) {
  return async (input: StepInput): Promise<StepResult> =>
    executeStep(db, input, async ({ tx, draft, run: locked, runContext, action }) => {
      if (action.kind !== 'reply') throw notThisKind();
      const message = {
        author: runContext.author,
        text: action.text,
        mentions: [],
        hop: locked.hop,
        runId: locked.id,
        refersTo: locked.messageId,
      };
      try {
        return { state: 'done', effectId: (await stageMessage(tx, draft, runContext.room, message)).messageId };
      } catch (error) {
        // It addresses more agents than a message may wake. Found before anything was staged.
        if (error instanceof InvalidInput) return { state: 'failed', code: 'reply_invalid' };
        throw error;
      }
    });
}
