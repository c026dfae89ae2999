// Stopping and asking anew: a run cancelled, a room paused, and what came of nothing asked once more.

import { loadAsked, stageAskedAgain } from '../../prisma/store/runs/ask-again';
import { cancelRun } from '../../prisma/store/runs/run-cancel';
import { RoomDraft, type AppendedEvent } from '../../prisma/store/rooms/room-draft';
import { pauseRoom, resumeRoom } from '../../prisma/store/lifecycle/room-pause';
import { roomResource } from '../../prisma/store/rooms/rooms';
import { loadRun } from '../../prisma/store/runs/run-reads';
import type { Tx } from '../../prisma/store/db/transaction';
import { authorOf, viewerOf, type CompanyCaller } from '../callers';
import { admitPoster, assertRight, wakeAnswer } from '../post-event';
import { created, ok, writeRoute, type Answer, type ApiDeps, type Route } from '../route';
import { shownRoom } from '../schemas/answers';
import { cancelBody } from '../schemas/decisions';
import { askedAgain, pausedRoom, shownRun } from '../schemas/room-answers';

export function stoppingRoutes({ prices }: Pick<ApiDeps, 'prices'>): readonly Route[] {
  return [
    writeRoute({
      method: 'post',
      path: '/v1/runs/:run/cancel',
      who: 'person',
      summary: 'Cancel a run, with or without a worker running',
      success: ok(shownRun),
      body: cancelBody,
      audit: (_, run) => ({ action: 'run.cancelled', subject: run.id, room: String(run['room']) }),
      async handle(tx, { caller, ids, body }) {
        const because = { by: caller.keyId, why: body?.reason ?? 'no reason given' };
        const cancelled = await cancelRun(tx, ids.run, caller.companyId, because);
        const run = await loadRun(tx, viewerOf(caller), ids.run, prices);
        return { status: 200, body: run, repeated: !cancelled };
      },
    }),
    writeRoute({
      method: 'post',
      path: '/v1/wakes/:wake/ask-again',
      who: 'company',
      summary: 'Ask anew what woke the agent, as a message or task of one’s own',
      success: created(askedAgain),
      audit: null,
      handle: (tx, { caller, ids }) => askAgain(tx, caller, { wake: ids.wake }),
    }),
    writeRoute({
      method: 'post',
      path: '/v1/runs/:run/ask-again',
      who: 'company',
      summary: 'Ask anew what the run was about, as a message or task of one’s own',
      success: created(askedAgain),
      audit: null,
      handle: (tx, { caller, ids }) => askAgain(tx, caller, { run: ids.run }),
    }),
    writeRoute({
      method: 'post',
      path: '/v1/rooms/:room/pause',
      who: 'person',
      summary: 'Let no run begin in a room; says which are still in flight',
      success: ok(pausedRoom),
      audit: ({ ids }) => ({ action: 'room.paused', subject: ids.room, room: ids.room }),
      async handle(tx, { caller, ids }) {
        const { room, inFlight, changed } = await pauseRoom(tx, ids.room, authorOf(caller));
        return { status: 200, body: { ...roomResource(room), in_flight: inFlight }, repeated: !changed };
      },
    }),
    writeRoute({
      method: 'post',
      path: '/v1/rooms/:room/resume',
      who: 'person',
      summary: 'Let runs begin again in a room',
      success: ok(shownRoom),
      audit: ({ ids }) => ({ action: 'room.resumed', subject: ids.room, room: ids.room }),
      async handle(tx, { caller, ids }) {
        const { room, changed } = await resumeRoom(tx, ids.room, authorOf(caller));
        return { status: 200, body: roomResource(room), repeated: !changed };
      },
    }),
  ];
}

async function askAgain(
  tx: Tx,
  caller: CompanyCaller,
  of: { readonly wake: string } | { readonly run: string },
): Promise<Answer> {
  const asked = await loadAsked(tx, viewerOf(caller), of);
  const poster = await admitPoster(tx, asked.roomId, caller);
  assertRight(poster, asked.task === null ? 'reply' : 'task_send');
  const draft = new RoomDraft(asked.roomId);
  const staged = await stageAskedAgain(tx, draft, poster.room, asked, poster);
  const [event] = (await draft.append(tx)) as [AppendedEvent];
  return {
    status: 201,
    body: {
      seq: Number(event.seq),
      event: event.id,
      id: staged.subjectId,
      refers_to: asked.messageId,
      wakes: staged.wakes.map((wake) => wakeAnswer(wake, caller.companyId)),
    },
  };
}
