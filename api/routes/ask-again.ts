// Ask again: POST on a wake or a run whose agent is finished. It repeats the message or task as a new one by the
// caller.

import type { Tx } from '../../prisma/store/db/transaction';
import { RoomDraft, type AppendedEvent } from '../../prisma/store/rooms/room-draft';
import { loadOriginalRequest, stageRepeatedRequest } from '../../prisma/store/runs/ask-again';
import { viewerOf, type CompanyCaller } from '../middleware/caller';
import { admitPoster, requireRight } from '../middleware/room-access';
import { created, writeRoute, type Answer, type Route } from '../route';
import { askedAgain } from '../schemas/room-answers';
import { causedWakeResource } from './events';

export const askAgainRoutes: readonly Route[] = [
  writeRoute({
    method: 'post',
    path: '/v1/wakes/:wake/ask-again',
    role: 'company',
    summary: "Repeat the message or task of a wake, as the caller's own",
    success: created(askedAgain),
    audit: null,
    handle: (tx, { caller, ids }) => askAgain(tx, caller, { wake: ids.wake }),
  }),
  writeRoute({
    method: 'post',
    path: '/v1/runs/:run/ask-again',
    role: 'company',
    summary: "Repeat the message or task of a run, as the caller's own",
    success: created(askedAgain),
    audit: null,
    handle: (tx, { caller, ids }) => askAgain(tx, caller, { run: ids.run }),
  }),
];

async function askAgain(
  tx: Tx,
  caller: CompanyCaller,
  of: { readonly wake: string } | { readonly run: string },
): Promise<Answer> {
  const asked = await loadOriginalRequest(tx, viewerOf(caller), of);
  const poster = await admitPoster(tx, asked.roomId, caller);
  requireRight(poster, asked.task === null ? 'reply' : 'task_send');
  const draft = new RoomDraft(asked.roomId);
  const staged = await stageRepeatedRequest(tx, draft, poster.room, asked, poster);
  const [event] = (await draft.append(tx)) as [AppendedEvent];
  return {
    status: 201,
    body: {
      seq: Number(event.seq),
      event: event.id,
      id: staged.subjectId,
      refers_to: asked.messageId,
      wakes: staged.wakes.map((wake) => causedWakeResource(wake, caller.companyId)),
    },
  };
}
