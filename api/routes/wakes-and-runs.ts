// The ledger: which wakes there were and what each run did.

import { loadRun, listRuns } from '../../prisma/store/runs/run-reads';
import { listWakes, loadWake } from '../../prisma/store/runs/wake-reads';
import { ENDINGS, WAKE_STATES } from '../../workflows/contract';
import { viewerOf } from '../callers';
import { ok, readRoute, type ApiDeps, type Route } from '../route';
import { pageOf } from '../schemas/answers';
import { listedRun, shownRun, shownWake } from '../schemas/room-answers';
import { idOf, instant, oneOf } from '../schemas/fields';
import { listBody, listQuery, pageRequest } from '../schemas/lists';

const filters = {
  room: idOf('room').optional(),
  agent: idOf('agent').optional(),
  since: instant.optional(),
  until: instant.optional(),
};

/** What a stretch of time means where runs of several companies are asked for. */
const ofRuns = instant.optional().meta({
  description: "Of its claim; of another company's run, of the message that woke it.",
});

export function ledgerRoutes({ prices }: Pick<ApiDeps, 'prices'>): readonly Route[] {
  return [
    readRoute({
      path: '/v1/wakes',
      who: 'company',
      summary: 'The wakes in the rooms of the caller',
      success: ok(pageOf(shownWake)),
      query: listQuery('wake').extend({ ...filters, state: oneOf(WAKE_STATES).optional() }),
      async handle(db, { caller, query }) {
        const { room, agent, state, since, until } = query;
        const filter = { room, agent, state, since, until };
        return { status: 200, body: listBody(await listWakes(db, viewerOf(caller), filter, pageRequest(query))) };
      },
    }),
    readRoute({
      path: '/v1/wakes/:wake',
      who: 'company',
      summary: 'A wake',
      success: ok(shownWake),
      async handle(db, { caller, ids }) {
        return { status: 200, body: await loadWake(db, viewerOf(caller), ids.wake) };
      },
    }),
    readRoute({
      path: '/v1/runs',
      who: 'company',
      summary: 'The runs in the rooms of the caller',
      success: ok(pageOf(listedRun)),
      query: listQuery('run').extend({
        ...filters,
        since: ofRuns,
        until: ofRuns,
        state: oneOf(['open', 'closed']).optional(),
        ending: oneOf(ENDINGS).optional(),
      }),
      async handle(db, { caller, query }) {
        const { room, agent, state, ending, since, until } = query;
        const filter = { room, agent, state, ending, since, until };
        return {
          status: 200,
          body: listBody(await listRuns(db, viewerOf(caller), filter, pageRequest(query), prices)),
        };
      },
    }),
    readRoute({
      path: '/v1/runs/:run',
      who: 'company',
      summary: 'A run: its steps and its model requests',
      success: ok(shownRun),
      async handle(db, { caller, ids }) {
        return { status: 200, body: await loadRun(db, viewerOf(caller), ids.run, prices) };
      },
    }),
  ];
}
