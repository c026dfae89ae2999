// The effect of a `reply` step: the reply is posted in the room.

import { InvalidInput } from '../prisma/store/db/errors';
import type { Effect, StepContext } from '../prisma/store/runs/fence';
import { stageMessage } from '../prisma/store/rooms/messages';

/** Stages the reply, one hop above the message that woke the run. */
export async function postReply({ tx, draft, run, runContext, action }: StepContext<'reply'>): Promise<Effect> {
  const message = {
    author: runContext.author,
    text: action.text,
    mentions: [],
    hop: run.hop,
    runId: run.id,
    refersTo: run.messageId,
  };
  try {
    return { state: 'done', effectId: (await stageMessage(tx, draft, runContext.room, message)).messageId };
  } catch (error) {
    // The reply addresses more agents than a message may wake. Found before anything was staged.
    if (error instanceof InvalidInput) return { state: 'failed', code: 'reply_invalid' };
    throw error;
  }
}
