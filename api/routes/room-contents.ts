// What is in a room, by kind: messages, tasks, memory entries. All of it is written through the events.

import { loadMemoryEntry } from '../../prisma/store/rooms/memory-reads';
import { listMessages, loadMessage } from '../../prisma/store/rooms/messages';
import { viewRoom } from '../../prisma/store/rooms/rooms';
import { listTasks, loadTask, taskResource } from '../../prisma/store/rooms/tasks';
import type { Reader } from '../../prisma/store/db/transaction';
import { TASK_OUTCOMES } from '../../workflows/contract';
import { viewerOf, type CompanyCaller } from '../callers';
import { ok, readRoute, type Route } from '../route';
import { pageOf } from '../schemas/answers';
import { shownEntry, shownMessage, shownTask } from '../schemas/room-answers';
import { idOf, oneOf } from '../schemas/fields';
import { listBody, listQuery, pageRequest } from '../schemas/lists';

async function enter(db: Reader, caller: CompanyCaller, roomId: string) {
  const { seesPrivate } = await viewRoom(db, viewerOf(caller), roomId);
  return { companyId: caller.companyId, seesPrivate };
}

export const roomContentRoutes: readonly Route[] = [
  readRoute({
    path: '/v1/rooms/:room/messages',
    who: 'company',
    summary: 'The messages of a room, by seq',
    success: ok(pageOf(shownMessage)),
    query: listQuery('seq'),
    async handle(db, { caller, ids, query }) {
      await enter(db, caller, ids.room);
      return { status: 200, body: listBody(await listMessages(db, ids.room, pageRequest(query))) };
    },
  }),
  readRoute({
    path: '/v1/rooms/:room/messages/:message',
    who: 'company',
    summary: 'A message',
    success: ok(shownMessage),
    async handle(db, { caller, ids }) {
      await enter(db, caller, ids.room);
      return { status: 200, body: await loadMessage(db, ids.room, ids.message) };
    },
  }),
  readRoute({
    path: '/v1/rooms/:room/tasks',
    who: 'company',
    summary: 'The tasks of a room',
    success: ok(pageOf(shownTask)),
    query: listQuery('task').extend({
      state: oneOf(['pending', 'in_progress', ...TASK_OUTCOMES]).optional(),
      recipient: idOf('agent').optional(),
    }),
    async handle(db, { caller, ids, query }) {
      await enter(db, caller, ids.room);
      const filter = { state: query.state, recipient: query.recipient };
      return { status: 200, body: listBody(await listTasks(db, ids.room, filter, pageRequest(query)), taskResource) };
    },
  }),
  readRoute({
    path: '/v1/rooms/:room/tasks/:task',
    who: 'company',
    summary: 'A task',
    success: ok(shownTask),
    async handle(db, { caller, ids }) {
      await enter(db, caller, ids.room);
      return { status: 200, body: taskResource(await loadTask(db, ids.room, ids.task)) };
    },
  }),
  readRoute({
    path: '/v1/rooms/:room/memory/:entry',
    who: 'company',
    summary: 'A memory entry',
    success: ok(shownEntry),
    async handle(db, { caller, ids }) {
      const viewer = await enter(db, caller, ids.room);
      return { status: 200, body: await loadMemoryEntry(db, viewer, ids.room, ids.entry) };
    },
  }),
];
