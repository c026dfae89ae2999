// Agents: create, read, change, pause and resume.

import {
  agentResource,
  createAgent,
  listAgents,
  loadKnownAgent,
  publicAgentResource,
  pauseAgent,
  resumeAgent,
  updateAgent,
  type Agent,
} from '../../prisma/store/rooms/agents';
import { viewerOf, type CompanyCaller } from '../middleware/caller';
import { created, ok, readRoute, writeRoute, type Route } from '../route';
import { ownAgent, pageOf, pausedAgent, shownAgent } from '../schemas/answers';
import { agentBody, agentPatch } from '../schemas/bodies';
import { slugOr } from '../schemas/fields';
import { listBody, listQuery, pageRequest } from '../schemas/lists';

/** The whole agent for its company's people and services and for the agent itself; for all others its public fields. */
function agentAsSeenBy(caller: CompanyCaller, agent: Agent): Record<string, unknown> {
  const own = agent.companyId === caller.companyId && (caller.kind !== 'agent' || caller.agentId === agent.id);
  return own ? agentResource(agent) : publicAgentResource(agent);
}

export const agentRoutes: readonly Route[] = [
  writeRoute({
    method: 'post',
    path: '/v1/agents',
    role: 'admin',
    summary: 'Create an agent',
    success: created(ownAgent),
    body: agentBody,
    audit: (_, agent) => ({ action: 'agent.created', subject: agent.id }),
    async handle(tx, { caller, body }) {
      const agent = await createAgent(tx, caller.companyId, {
        slug: slugOr(body.slug, body.name),
        name: body.name,
        alwaysOn: body.always_on,
        instructions: body.instructions,
        model: body.model,
        modelKeyId: body.model_key,
        tokensPerDay: body.tokens_per_day,
        tokensPerRun: body.tokens_per_run,
      });
      return { status: 201, body: agentResource(agent) };
    },
  }),
  readRoute({
    path: '/v1/agents',
    role: 'company',
    summary: "List the company's agents",
    success: ok(pageOf(shownAgent)),
    query: listQuery('agent'),
    async handle(db, { caller, query }) {
      const agents = await listAgents(db, caller.companyId, pageRequest(query));
      return { status: 200, body: listBody(agents, (agent) => agentAsSeenBy(caller, agent)) };
    },
  }),
  readRoute({
    path: '/v1/agents/:agent',
    role: 'company',
    summary: 'Get an agent',
    success: ok(shownAgent),
    async handle(db, { caller, ids }) {
      const agent = await loadKnownAgent(db, viewerOf(caller), ids.agent);
      return { status: 200, body: agentAsSeenBy(caller, agent) };
    },
  }),
  writeRoute({
    method: 'patch',
    path: '/v1/agents/:agent',
    role: 'admin',
    summary: 'Change an agent',
    success: ok(ownAgent),
    body: agentPatch,
    // The audit has the new limits. It has only the names of other fields, because instructions are content.
    audit: ({ ids, body }) => ({
      action: 'agent.changed',
      subject: ids.agent,
      details: {
        fields: Object.keys(body),
        tokens_per_day: body.tokens_per_day,
        tokens_per_run: body.tokens_per_run,
      },
    }),
    async handle(tx, { caller, ids, body }) {
      const agent = await updateAgent(tx, caller.companyId, ids.agent, {
        name: body.name,
        alwaysOn: body.always_on,
        instructions: body.instructions,
        model: body.model,
        modelKeyId: body.model_key,
        tokensPerDay: body.tokens_per_day,
        tokensPerRun: body.tokens_per_run,
      });
      return { status: 200, body: agentResource(agent) };
    },
  }),
  writeRoute({
    method: 'post',
    path: '/v1/agents/:agent/pause',
    role: 'person',
    summary: 'Pause an agent: none of its runs begins. The answer lists its runs in flight',
    success: ok(pausedAgent),
    audit: ({ ids }) => ({ action: 'agent.paused', subject: ids.agent }),
    async handle(tx, { caller, ids }) {
      const { agent, inFlight, changed } = await pauseAgent(tx, caller.companyId, ids.agent);
      return { status: 200, body: { ...agentResource(agent), in_flight: inFlight }, repeated: !changed };
    },
  }),
  writeRoute({
    method: 'post',
    path: '/v1/agents/:agent/resume',
    role: 'person',
    summary: 'Resume an agent: its runs begin again',
    success: ok(ownAgent),
    audit: ({ ids }) => ({ action: 'agent.resumed', subject: ids.agent }),
    async handle(tx, { caller, ids }) {
      const { agent, changed } = await resumeAgent(tx, caller.companyId, ids.agent);
      return { status: 200, body: agentResource(agent), repeated: !changed };
    },
  }),
];
