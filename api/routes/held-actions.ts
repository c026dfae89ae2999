// Held actions of a company over all its rooms, and the decision on each.

import { decideHeldAction } from '../../prisma/store/runs/held-actions/decide';
import { heldActionResource, listHeldActions, loadHeldAction } from '../../prisma/store/runs/held-actions/read';
import { HELD_ACTION_STATES } from '../../workflows/contract';
import { viewerOf } from '../middleware/caller';
import { ok, readRoute, writeRoute, type Route } from '../route';
import { pageOf } from '../schemas/answers';
import { decisionBody } from '../schemas/decisions';
import { idOf, instant, oneOf } from '../schemas/fields';
import { shownHeldAction } from '../schemas/room-answers';
import { listBody, listQuery, pageRequest } from '../schemas/lists';

export const heldActionRoutes: readonly Route[] = [
  readRoute({
    path: '/v1/held-actions',
    role: 'company',
    summary: "List the company's actions that wait, or waited, for approval",
    success: ok(pageOf(shownHeldAction)),
    query: listQuery('held').extend({
      room: idOf('room').optional(),
      agent: idOf('agent').optional(),
      state: oneOf(HELD_ACTION_STATES).optional(),
      since: instant.optional(),
      until: instant.optional(),
    }),
    async handle(db, { caller, query }) {
      const { room, agent, state, since, until } = query;
      const filter = { room, agent, state, since, until };
      const page = await listHeldActions(db, viewerOf(caller), filter, pageRequest(query));
      return { status: 200, body: listBody(page, heldActionResource) };
    },
  }),
  readRoute({
    path: '/v1/held-actions/:held_action',
    role: 'company',
    summary: 'Get a held action',
    success: ok(shownHeldAction),
    async handle(db, { caller, ids }) {
      return { status: 200, body: heldActionResource(await loadHeldAction(db, viewerOf(caller), ids.held_action)) };
    },
  }),
  writeRoute({
    method: 'post',
    path: '/v1/held-actions/:held_action/decision',
    role: 'person',
    summary: 'Approve or decline a held action; the same decision again returns the recorded one',
    success: ok(shownHeldAction),
    problems: ['gone'],
    body: decisionBody,
    audit: ({ body }, action) => ({
      action: body.decision === 'approve' ? 'held_action.approved' : 'held_action.declined',
      subject: action.id,
      room: String(action['room']),
      details: { run: action['run'], step: action['step'], hash: body.hash },
    }),
    async handle(tx, { caller, ids, body }) {
      const decided = await decideHeldAction(tx, caller, ids.held_action, body);
      const action = await loadHeldAction(tx, viewerOf(caller), ids.held_action);
      return { status: 200, body: heldActionResource(action), repeated: !decided };
    },
  }),
];
