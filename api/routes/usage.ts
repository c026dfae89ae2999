// Usage of a room, an agent or a company, over the last 24 hours or a given time range.

import { loadOwnAgent } from '../../prisma/store/rooms/agents';
import { loadBudgetToday } from '../../prisma/store/eligibility/budgets';
import { loadCompany } from '../../prisma/store/lifecycle/companies';
import { NotAllowed, NotFound } from '../../prisma/store/db/errors';
import { viewRoom } from '../../prisma/store/rooms/rooms';
import type { Reader } from '../../prisma/store/db/transaction';
import { loadOwnUsage, loadRoomUsage, loadWindow, type UsageWindow } from '../../prisma/store/reports/usage';
import { viewerOf } from '../middleware/caller';
import { Problem } from '../problems';
import { ok, readRoute, type ApiDeps, type Route } from '../route';
import { usageQuery } from '../schemas/usage';
import { agentUsage, companyUsage, roomUsage } from '../schemas/usage-answers';

export function usageRoutes({ prices }: Pick<ApiDeps, 'prices'>): readonly Route[] {
  return [
    readRoute({
      path: '/v1/rooms/:room/usage',
      role: 'company',
      summary: 'Get the usage of a room',
      success: ok(roomUsage),
      query: usageQuery,
      async handle(db, { caller, ids, query }) {
        await viewRoom(db, viewerOf(caller), ids.room);
        const window = await windowOf(db, query);
        return { status: 200, body: await loadRoomUsage(db, caller.companyId, ids.room, window, prices) };
      },
    }),
    readRoute({
      path: '/v1/agents/:agent/usage',
      role: 'company',
      summary: 'Get the usage of an agent',
      success: ok(agentUsage),
      query: usageQuery,
      async handle(db, { caller, ids, query }) {
        const agent = await loadOwnAgent(db, caller.companyId, ids.agent);
        // An agent may read only its own usage: other agents of its company act in rooms that it is not in.
        if (caller.kind === 'agent' && caller.agentId !== agent.id) {
          throw new NotAllowed('this request needs the key of a person, a service or this agent');
        }
        const usage = await loadOwnUsage(db, caller.companyId, { agent: agent.id }, await windowOf(db, query), prices);
        const budget = await loadBudgetToday(db, 'agent_id', agent.id, agent.tokensPerDay);
        return { status: 200, body: { ...usage, budget } };
      },
    }),
    readRoute({
      path: '/v1/companies/:company/usage',
      role: 'company',
      summary: 'Get the usage of a company',
      success: ok(companyUsage),
      query: usageQuery,
      async handle(db, { caller, ids, query }) {
        if (caller.companyId !== ids.company) throw new NotFound('no such company');
        if (caller.kind === 'agent') throw new NotAllowed('this request needs the key of a person or a service');
        const { id, tokensPerDay } = await loadCompany(db, ids.company);
        const usage = await loadOwnUsage(db, id, { company: id }, await windowOf(db, query), prices);
        return { status: 200, body: { ...usage, budget: await loadBudgetToday(db, 'company_id', id, tokensPerDay) } };
      },
    }),
  ];
}

async function windowOf(
  db: Reader,
  query: { since?: Date | undefined; until?: Date | undefined },
): Promise<UsageWindow> {
  const window = await loadWindow(db, query.since, query.until);
  if (window.since < window.until) return window;
  throw new Problem('invalid_input', 'since must be before until; the default of until is now', {
    location: { parameter: 'since' },
  });
}
