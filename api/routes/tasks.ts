// Reads of a room's tasks. Tasks, responses and verdicts are written as events: `events.ts`.

import { viewRoom } from '../../prisma/store/rooms/rooms';
import { listTasks, loadTask, taskResource } from '../../prisma/store/rooms/tasks';
import { TASK_OUTCOMES } from '../../workflows/contract';
import { viewerOf } from '../middleware/caller';
import { ok, readRoute, type Route } from '../route';
import { pageOf } from '../schemas/answers';
import { idOf, oneOf } from '../schemas/fields';
import { listBody, listQuery, pageRequest } from '../schemas/lists';
import { shownTask } from '../schemas/room-answers';

export const taskRoutes: readonly Route[] = [
  readRoute({
    path: '/v1/rooms/:room/tasks',
    role: 'company',
    summary: 'List the tasks of a room',
    success: ok(pageOf(shownTask)),
    query: listQuery('task').extend({
      state: oneOf(['pending', 'in_progress', ...TASK_OUTCOMES]).optional(),
      recipient: idOf('agent').optional(),
    }),
    async handle(db, { caller, ids, query }) {
      await viewRoom(db, viewerOf(caller), ids.room);
      const filter = { state: query.state, recipient: query.recipient };
      return { status: 200, body: listBody(await listTasks(db, ids.room, filter, pageRequest(query)), taskResource) };
    },
  }),
  readRoute({
    path: '/v1/rooms/:room/tasks/:task',
    role: 'company',
    summary: 'Get a task',
    success: ok(shownTask),
    async handle(db, { caller, ids }) {
      await viewRoom(db, viewerOf(caller), ids.room);
      return { status: 200, body: taskResource(await loadTask(db, ids.room, ids.task)) };
    },
  }),
];
