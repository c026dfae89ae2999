// Crash cases with a held action: sets the rights of their agents, and approves the actions before or after the fault.

import { Database } from '../../prisma/store/db/database';
import { decideHeldAction } from '../../prisma/store/runs/held-actions/decide';
import type { CrashPoint } from './crash-points';
import { until } from './runs';
import type { World } from './world';

interface HoldCase {
  readonly point: CrashPoint;
  readonly agentId: string;
}

/** Long enough for a busy machine. */
const PARKED_WITHIN_MS = 120_000;

/** Whether a run at this point has a held action. It is the last step: sending a task. */
export function holdsAt(point: CrashPoint): boolean {
  return /^(openHeldActions|decision):/.test(point);
}

/** Requires an approval for tasks of the agent, if the point of the case is at a held action. */
export async function holdTaskSends(world: World, { point, agentId }: HoldCase): Promise<void> {
  if (holdsAt(point)) await world.db.roomAgent.updateMany({ where: { agentId }, data: { rightTaskSend: 'hold' } });
}

/**
 * Approves the held actions of the runs that reach their points only after a decision. Resolves when each run that must park
 * is parked and each run that continues has ended.
 *
 * All approvals are in one transaction, because a dispatcher that is held at one signal takes no others.
 */
export async function decideBeforeFault(world: World, cases: readonly HoldCase[]): Promise<void> {
  const decided = cases.filter(({ point }) => point.startsWith('decision:'));
  const toApprove = decided.filter(({ point }) => point !== 'decision:parked');
  await untilParked(world, decided);
  await approveAll(world, toApprove);
  // At this point only the dispatcher is held; the run continues. The fault must not interrupt it.
  const continuing = decided.flatMap(({ point, agentId }) => (point === 'decision:sent' ? [agentId] : []));
  const closed = async (): Promise<boolean> =>
    (await world.db.run.count({ where: { agentId: { in: continuing }, state: 'closed' } })) === continuing.length;
  await until('the runs with a delivered decision to end', closed, PARKED_WITHIN_MS);
}

/** Approves the held actions of the other runs, each as soon as its run is parked. For use after the fault. */
export async function decideAfterFault(world: World, cases: readonly HoldCase[]): Promise<void> {
  const left = cases.filter(({ point }) => point === 'decision:parked' || point.startsWith('openHeldActions:'));
  for (const each of left) {
    // A run that ended before it parked needs no decision.
    const run = await until(
      'a run to park or to end',
      () =>
        world.db.run
          .findFirst({
            where: { agentId: each.agentId, OR: [{ parkedAt: { not: null } }, { state: 'closed' }] },
          })
          // A server may be restarting.
          .catch(() => null),
      PARKED_WITHIN_MS,
    );
    if (run.state === 'open') await approveAll(world, [each]);
  }
}

/** The number of cases whose runs are parked at their points. No worker reports `reached` for them. */
export function countParked(cases: readonly Pick<HoldCase, 'point'>[]): number {
  return cases.filter(({ point }) => point === 'decision:parked').length;
}

async function untilParked(world: World, cases: readonly HoldCase[]): Promise<void> {
  if (cases.length === 0) return;
  const agents = cases.map(({ agentId }) => agentId);
  const where = { agentId: { in: agents }, parkedAt: { not: null } };
  const parked = async (): Promise<boolean> => (await world.db.run.count({ where })) === cases.length;
  await until('every run to park', parked, PARKED_WITHIN_MS);
}

async function approveAll(world: World, cases: readonly HoldCase[]): Promise<void> {
  const agents = cases.map(({ agentId }) => agentId);
  const held = await world.db.heldAction.findMany({ where: { agentId: { in: agents }, state: 'held' } });
  // The lock order is not checked: it is that of one decision, and this transaction makes many.
  const db = new Database({ ...world.db.parts, checkLockOrder: false });
  await db.transaction(async (tx) => {
    for (const { id, sha256, companyId } of held) {
      const by = { keyId: world.host.person.id, name: world.host.person.name, companyId };
      await decideHeldAction(tx, by, id, { decision: 'approve', hash: sha256 });
    }
  });
}
