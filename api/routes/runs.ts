// Runs: what each run did, its timeline, and its cancellation.

import { cancelRun } from '../../prisma/store/runs/run-cancel';
import { listRuns, loadRun } from '../../prisma/store/runs/run-reads';
import { NO_HISTORIES } from '../../worker/temporal/histories';
import { loadTimeline } from '../../worker/temporal/timeline';
import { ENDINGS } from '../../workflows/contract';
import { viewerOf } from '../middleware/caller';
import { ok, readRoute, writeRoute, type ApiDeps, type Route } from '../route';
import { pageOf } from '../schemas/answers';
import { cancelBody } from '../schemas/decisions';
import { idOf, instant, oneOf } from '../schemas/fields';
import { listBody, listQuery, pageRequest } from '../schemas/lists';
import { listedRun, shownRun } from '../schemas/room-answers';
import { shownTimeline } from '../schemas/timeline-answer';

const time = instant.optional().meta({
  description: "For the company's own runs the time of the claim; for other companies' runs the time of the message.",
});

export function runRoutes({
  prices,
  histories = NO_HISTORIES,
}: Pick<ApiDeps, 'prices' | 'histories'>): readonly Route[] {
  return [
    readRoute({
      path: '/v1/runs',
      role: 'company',
      summary: "List the runs in the caller's rooms",
      success: ok(pageOf(listedRun)),
      query: listQuery('run').extend({
        room: idOf('room').optional(),
        agent: idOf('agent').optional(),
        since: time,
        until: time,
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
      role: 'company',
      summary: 'Get a run with its steps and its model requests',
      success: ok(shownRun),
      async handle(db, { caller, ids }) {
        return { status: 200, body: await loadRun(db, viewerOf(caller), ids.run, prices) };
      },
    }),
    readRoute({
      path: '/v1/runs/:run/timeline',
      role: 'company',
      summary: "Get what happened to one of the company's own runs, in time order",
      success: ok(shownTimeline),
      async handle(db, { caller, ids }) {
        const { resource } = await loadTimeline(db, histories, viewerOf(caller), ids.run);
        return { status: 200, body: resource };
      },
    }),
    writeRoute({
      method: 'post',
      path: '/v1/runs/:run/cancel',
      role: 'person',
      summary: 'Cancel a run; it needs no running worker',
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
  ];
}
