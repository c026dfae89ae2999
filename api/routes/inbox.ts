// An agent's inbox in a room, read with the agent's key. It is a POST because reading it marks its tasks as in
// progress.

import { z } from 'zod';
import { readInbox } from '../../prisma/store/rooms/inbox';
import { authorOf } from '../middleware/caller';
import { encodeCursor } from '../schemas/cursors';
import { ok, writeRoute, type Route } from '../route';
import { cursor, LIMIT_DEFAULT, limitField } from '../schemas/lists';
import { shownInbox } from '../schemas/room-answers';

const inboxBody = z.strictObject({ cursor: cursor('seq').optional(), limit: limitField.default(LIMIT_DEFAULT) });

export const inboxRoutes: readonly Route[] = [
  writeRoute({
    method: 'post',
    path: '/v1/rooms/:room/inbox',
    role: 'agent',
    summary: "Read the agent's open tasks and the messages that address it; its pending tasks become in progress",
    success: ok(shownInbox),
    audit: null,
    repeatable: true,
    body: inboxBody.default({ limit: LIMIT_DEFAULT }),
    async handle(tx, { caller, ids, body }) {
      const page = { after: BigInt(body.cursor ?? 0), limit: body.limit };
      const inbox = await readInbox(tx, ids.room, authorOf(caller), page);
      return {
        status: 200,
        body: {
          tasks: inbox.tasks,
          more_tasks: inbox.moreTasks,
          messages: inbox.messages,
          next_cursor: encodeCursor(inbox.lastSeq.toString()),
        },
      };
    },
  }),
];
