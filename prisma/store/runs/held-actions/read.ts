// Reads a company's held actions in all its rooms. Other companies do not see them; an agent's key sees the agent's actions.

import { Prisma } from '../../../generated/client';
import type { HeldActionState } from '../../../../workflows/contract';
import { NotFound } from '../../db/errors';
import { byId, pageOf, type Page, type PageRequest } from '../../db/paging';
import type { Reader } from '../../db/transaction';
import type { Viewer } from '../../access/viewer';

export interface HeldActionFilter {
  readonly room: string | undefined;
  readonly agent: string | undefined;
  readonly state: HeldActionState | undefined;
  /** Bounds of the opening time: `since` is included, `until` is not. */
  readonly since: Date | undefined;
  readonly until: Date | undefined;
}

export const WITH_RUN = {
  run: { select: { messageId: true, state: true, ending: true } },
} satisfies Prisma.HeldActionInclude;

export type ShownAction = Prisma.HeldActionGetPayload<{ include: typeof WITH_RUN }>;

/** The held actions that the viewer may see, by id, which is the order in which they were opened. */
export async function listHeldActions(
  reader: Reader,
  viewer: Viewer,
  filter: HeldActionFilter,
  page: PageRequest,
): Promise<Page<ShownAction>> {
  const { where, ...rest } = byId(page);
  const { room, agent, state, since, until } = filter;
  const actions = await reader.heldAction.findMany({
    where: {
      ...where,
      ...ownOf(viewer),
      ...(room !== undefined && { roomId: room }),
      ...(agent !== undefined && { AND: { agentId: agent } }),
      ...(state !== undefined && { state }),
      ...((since || until) && { openedAt: { ...(since && { gte: since }), ...(until && { lt: until }) } }),
    },
    include: WITH_RUN,
    ...rest,
  });
  return pageOf(actions, page, (action) => action.id);
}

/** Reads one held action. @throws NotFound also if the viewer may not see the action */
export async function loadHeldAction(reader: Reader, viewer: Viewer, heldActionId: string): Promise<ShownAction> {
  const action = await reader.heldAction.findFirst({
    where: { id: heldActionId, ...ownOf(viewer) },
    include: WITH_RUN,
  });
  if (!action) throw new NotFound('no such held action');
  return action;
}

/** A held action as its own company sees it. `action` is null after a redaction. */
export function heldActionResource(action: ShownAction): Record<string, unknown> {
  return {
    id: action.id,
    room: action.roomId,
    agent: action.agentId,
    run: action.runId,
    message: action.run.messageId,
    step: action.stepKey,
    kind: action.kind,
    state: action.state,
    action: action.action === null ? null : (JSON.parse(action.action) as unknown),
    hash: action.sha256,
    opened_at: action.openedAt.toISOString(),
    expires_at: action.expiresAt.toISOString(),
    changed_at: action.changedAt.toISOString(),
    decision: action.decision,
    decided_by: action.decidedBy === null ? null : { id: action.decidedBy, name: action.decidedByName },
    decided_at: action.decidedAt?.toISOString() ?? null,
    run_state: action.run.state,
    run_ending: action.run.ending,
  };
}

function ownOf(viewer: Viewer): Prisma.HeldActionWhereInput {
  return { companyId: viewer.companyId, ...(viewer.agentId !== null && { agentId: viewer.agentId }) };
}
