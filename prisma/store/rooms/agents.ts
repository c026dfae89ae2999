// Agents and their settings. The rooms of an agent and its rights there are in roster.ts.

import type { Agent } from '../../generated/client';
import { Conflict, InvalidInput, NotFound } from '../db/errors';
import { newId } from '../db/ids';
import { byId, pageOf, type Page, type PageRequest } from '../db/paging';
import { renameOnRosters } from './roster';
import type { Reader, Tx } from '../db/transaction';
import { forNoKeyUpdate, forShare } from '../db/lock-order';
import type { Viewer } from '../access/viewer';

export type { Agent };

export interface AgentSettings {
  readonly name: string;
  readonly alwaysOn: boolean;
  readonly instructions: string;
  readonly model: string | null;
  readonly modelKeyId: string | null;
  /** Null: no limit. */
  readonly tokensPerDay: number | null;
  readonly tokensPerRun: number;
}

/**
 * Creates an agent.
 * @throws Conflict if the company has an agent with this slug; InvalidInput if the budget is too small, or the agent is
 * always-on without a usable model and key
 */
export async function createAgent(
  tx: Tx,
  companyId: string,
  agent: AgentSettings & { readonly slug: string },
): Promise<Agent> {
  await checkModel(tx, companyId, agent);
  checkBudget(agent);
  const id = newId('agent');
  const created = await tx.$executeRaw`
    INSERT INTO agents (id, company_id, slug, name, always_on, instructions, model, model_key_id, tokens_per_day,
                        tokens_per_run)
    VALUES (${id}, ${companyId}, ${agent.slug}, ${agent.name}, ${agent.alwaysOn}, ${agent.instructions}, ${agent.model},
            ${agent.modelKeyId}, ${agent.tokensPerDay}::bigint, ${agent.tokensPerRun}::int)
    ON CONFLICT (company_id, slug) DO NOTHING`;
  if (created === 0) throw new Conflict('the company already has an agent with this slug');
  return loadOwnAgent(tx, companyId, id);
}

/** Reads an agent of this company. @throws NotFound */
export async function loadOwnAgent(reader: Reader, companyId: string, agentId: string): Promise<Agent> {
  const agent = await reader.agent.findUnique({ where: { id: agentId, companyId } });
  if (!agent) throw new NotFound('no such agent');
  return agent;
}

/**
 * Reads an agent that the viewer may see: an agent of the viewer's company, or one that shares a room with the viewer.
 * @throws NotFound for every other agent, as for an unknown id
 */
export async function loadKnownAgent(reader: Reader, by: Viewer, agentId: string): Promise<Agent> {
  const agent = await reader.agent.findUnique({ where: { id: agentId } });
  if (agent && (agent.companyId === by.companyId || (await shareRoom(reader, by, agent)))) return agent;
  throw new NotFound('no such agent');
}

export async function listAgents(reader: Reader, companyId: string, page: PageRequest): Promise<Page<Agent>> {
  const { where, ...rest } = byId(page);
  return pageOf(await reader.agent.findMany({ where: { ...where, companyId }, ...rest }), page, (agent) => agent.id);
}

/**
 * Changes an agent's settings. A new name applies on all rosters of the agent, or the whole change fails.
 * @throws NotFound; Conflict if the name is taken on one of the rosters; InvalidInput as `createAgent`
 */
export async function updateAgent(
  tx: Tx,
  companyId: string,
  agentId: string,
  change: { readonly [K in keyof AgentSettings]: AgentSettings[K] | undefined },
): Promise<Agent> {
  await lockAgent(tx, companyId, agentId);
  const before = await loadOwnAgent(tx, companyId, agentId);
  const after = {
    name: change.name ?? before.name,
    alwaysOn: change.alwaysOn ?? before.alwaysOn,
    instructions: change.instructions ?? before.instructions,
    model: change.model === undefined ? before.model : change.model,
    modelKeyId: change.modelKeyId === undefined ? before.modelKeyId : change.modelKeyId,
    tokensPerDay: change.tokensPerDay === undefined ? budgetOf(before) : change.tokensPerDay,
    tokensPerRun: change.tokensPerRun ?? before.tokensPerRun,
  };
  // Checked only if the change concerns the model: an agent with a revoked key can still be renamed.
  const touchesModel = [change.alwaysOn, change.model, change.modelKeyId].some((value) => value !== undefined);
  if (touchesModel) await checkModel(tx, companyId, after);
  checkBudget(after);
  const agent = await tx.agent.update({ where: { id: agentId }, data: after });
  if (agent.name !== before.name) await renameOnRosters(tx, agent);
  return agent;
}

/** A run that was open when its agent was paused. */
export interface RunOfPaused {
  readonly run: string;
  readonly room: string;
  readonly message: string;
}

/**
 * Stops new runs of an agent and returns its open runs in all rooms. `changed` is false if the agent was already paused.
 *
 * It locks the agent's roster rows, which a claim locks for sharing. It therefore waits for a claim in progress, and its
 * run is among the open runs; a later claim finds the agent paused.
 * @throws NotFound
 */
export async function pauseAgent(
  tx: Tx,
  companyId: string,
  agentId: string,
): Promise<{ agent: Agent; inFlight: readonly RunOfPaused[]; changed: boolean }> {
  await lockAgent(tx, companyId, agentId);
  await tx.$queryRaw`
    SELECT 1 AS locked FROM room_agents WHERE agent_id = ${agentId} ORDER BY room_id ${forNoKeyUpdate(tx, 'roster')}`;
  const changed = await tx.$executeRaw`
    UPDATE agents SET paused_at = clock_ms() WHERE id = ${agentId} AND paused_at IS NULL`;
  const inFlight = await tx.$queryRaw<RunOfPaused[]>`
    SELECT id AS run, room_id AS room, message_id AS message
    FROM runs WHERE agent_id = ${agentId} AND state = 'open' ORDER BY id`;
  return { agent: await loadOwnAgent(tx, companyId, agentId), inFlight, changed: changed === 1 };
}

/**
 * Allows new runs of an agent again; `changed` is false if the agent was not paused. Suppressed wakes stay suppressed.
 * @throws NotFound
 */
export async function resumeAgent(
  tx: Tx,
  companyId: string,
  agentId: string,
): Promise<{ agent: Agent; changed: boolean }> {
  const changed = await tx.$executeRaw`
    UPDATE agents SET paused_at = NULL
    WHERE id = ${agentId} AND company_id = ${companyId} AND paused_at IS NOT NULL`;
  return { agent: await loadOwnAgent(tx, companyId, agentId), changed: changed === 1 };
}

/** Locks a company's agent, so that its name does not change until the transaction ends. @throws NotFound */
export async function lockAgent(
  tx: Tx,
  companyId: string,
  agentId: string,
): Promise<{ id: string; slug: string; name: string }> {
  const [agent] = await tx.$queryRaw<{ id: string; slug: string; name: string }[]>`
    SELECT id, slug, name FROM agents WHERE id = ${agentId} AND company_id = ${companyId} ${forNoKeyUpdate(tx, 'agent')}`;
  if (!agent) throw new NotFound('no such agent');
  return agent;
}

/** An agent as its own company sees it. */
export function agentResource(agent: Agent): Record<string, unknown> {
  return {
    ...publicAgentResource(agent),
    always_on: agent.alwaysOn,
    instructions: agent.instructions,
    model: agent.model,
    model_key: agent.modelKeyId,
    tokens_per_day: budgetOf(agent),
    tokens_per_run: agent.tokensPerRun,
    created_at: agent.createdAt.toISOString(),
    paused_at: agent.pausedAt?.toISOString() ?? null,
  };
}

/** An agent as other companies see it. */
export function publicAgentResource(agent: {
  id: string;
  slug: string;
  name: string;
  companyId: string;
}): Record<string, unknown> {
  return { id: agent.id, slug: agent.slug, name: agent.name, company: agent.companyId };
}

/** A budget as a number. The API accepts only budgets that are safe integers. */
function budgetOf(agent: { tokensPerDay: bigint | null }): number | null {
  return agent.tokensPerDay === null ? null : Number(agent.tokensPerDay);
}

function checkBudget({ tokensPerDay, tokensPerRun }: Pick<AgentSettings, 'tokensPerDay' | 'tokensPerRun'>): void {
  if (tokensPerDay === null || tokensPerDay === 0 || tokensPerDay >= tokensPerRun) return;
  throw new InvalidInput('less than tokens_per_run, so no run could start; use 0 to stop all runs', '/tokens_per_day');
}

async function checkModel(
  tx: Tx,
  companyId: string,
  agent: Pick<AgentSettings, 'alwaysOn' | 'model' | 'modelKeyId'>,
): Promise<void> {
  if (agent.alwaysOn && agent.model === null) throw new InvalidInput('an always-on agent needs a model', '/model');
  if (agent.modelKeyId === null) {
    if (agent.alwaysOn) throw new InvalidInput('an always-on agent needs a model key', '/model_key');
    return;
  }
  // Locked for sharing: a revocation waits for this transaction, and then applies to this agent too.
  const [key] = await tx.$queryRaw<{ revoked: boolean }[]>`
    SELECT revoked_at IS NOT NULL AS revoked FROM model_keys
    WHERE id = ${agent.modelKeyId} AND company_id = ${companyId} ${forShare(tx, 'model_key')}`;
  if (!key) throw new InvalidInput('no such model key', '/model_key');
  if (key.revoked) throw new InvalidInput('the model key was revoked', '/model_key');
}

async function shareRoom(reader: Reader, by: Viewer, agent: Agent): Promise<boolean> {
  const [row] = await reader.$queryRaw<{ shared: boolean }[]>`
    SELECT EXISTS (
      SELECT FROM room_agents ra
      JOIN room_members theirs ON theirs.room_id = ra.room_id AND theirs.company_id = ${agent.companyId}
        AND theirs.left_at IS NULL
      JOIN room_members ours ON ours.room_id = ra.room_id AND ours.company_id = ${by.companyId}
        AND ours.left_at IS NULL
      WHERE ra.agent_id = ${agent.id} AND ra.removed_at IS NULL
        AND (${by.agentId}::text IS NULL OR EXISTS (
          SELECT FROM room_agents mine
          WHERE mine.room_id = ra.room_id AND mine.agent_id = ${by.agentId} AND mine.removed_at IS NULL))
    ) AS shared`;
  return row?.shared === true;
}
