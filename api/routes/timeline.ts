// A run's timeline: the ledger, the room and Temporal's history as one list, for the run's own company.

import { NO_HISTORIES } from '../../worker/temporal/histories';
import { loadTimeline } from '../../worker/temporal/timeline';
import { viewerOf } from '../callers';
import { ok, readRoute, type ApiDeps, type Route } from '../route';
import { shownTimeline } from '../schemas/timeline-answer';

export function timelineRoutes({ histories = NO_HISTORIES }: Pick<ApiDeps, 'histories'>): readonly Route[] {
  return [
    readRoute({
      path: '/v1/runs/:run/timeline',
      who: 'company',
      summary: 'What happened to a run of the own company, in time order',
      success: ok(shownTimeline),
      async handle(db, { caller, ids }) {
        const { resource } = await loadTimeline(db, histories, viewerOf(caller), ids.run);
        return { status: 200, body: resource };
      },
    }),
  ];
}
