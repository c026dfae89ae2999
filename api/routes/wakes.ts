// Wakes: which messages woke which agents, and why an agent was not woken.

import { listWakes, loadWake } from '../../prisma/store/runs/wake-reads';
import { WAKE_STATES } from '../../workflows/contract';
import { viewerOf } from '../middleware/caller';
import { ok, readRoute, type Route } from '../route';
import { pageOf } from '../schemas/answers';
import { idOf, instant, oneOf } from '../schemas/fields';
import { listBody, listQuery, pageRequest } from '../schemas/lists';
import { shownWake } from '../schemas/room-answers';

export const wakeRoutes: readonly Route[] = [
  readRoute({
    path: '/v1/wakes',
    role: 'company',
    summary: "List the wakes in the caller's rooms",
    success: ok(pageOf(shownWake)),
    query: listQuery('wake').extend({
      room: idOf('room').optional(),
      agent: idOf('agent').optional(),
      since: instant.optional(),
      until: instant.optional(),
      state: oneOf(WAKE_STATES).optional(),
    }),
    async handle(db, { caller, query }) {
      const { room, agent, state, since, until } = query;
      const filter = { room, agent, state, since, until };
      return { status: 200, body: listBody(await listWakes(db, viewerOf(caller), filter, pageRequest(query))) };
    },
  }),
  readRoute({
    path: '/v1/wakes/:wake',
    role: 'company',
    summary: 'Get a wake',
    success: ok(shownWake),
    async handle(db, { caller, ids }) {
      return { status: 200, body: await loadWake(db, viewerOf(caller), ids.wake) };
    },
  }),
];
