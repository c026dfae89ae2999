// Cases whose point is around a held action: what the room's agent may do by itself there, and who says yes to the rest.

import { decideHeldAction } from '../../prisma/store/runs/held-actions/decide';
import type { CrashPoint } from './crash-points';
import { until } from './runs';
import type { World } from './world';

interface HoldCase {
  readonly point: CrashPoint;
  readonly agentId: string;
}

/** Fits a busy machine, as the runs' own way to their points does. */
const PARKED_WITHIN_MS = 120_000;

/** Whether a run at this point has something to hold: its last step, a task to send. */
export function holdsAt(point: CrashPoint): boolean {
  return /^(openHeldActions|decision):/.test(point);
}

/** Lets the agent of a case at such a point send tasks only after a yes. */
export async function letHold(world: World, { point, agentId }: HoldCase): Promise<void> {
  if (holdsAt(point)) await world.db.roomAgent.updateMany({ where: { agentId }, data: { rightTaskSend: 'hold' } });
}

/**
 * Says yes where a decision has to be made for a run to reach its point, and resolves when each that is to be parked is,
 * and each that goes on has ended.
 *
 * All at once, in one transaction: a dispatcher that stands at one signal takes no others.
 */
export async function decideToStand(world: World, cases: readonly HoldCase[]): Promise<void> {
  const decided = cases.filter(({ point }) => point.startsWith('decision:'));
  const toStand = decided.filter(({ point }) => point !== 'decision:parked');
  await untilParked(world, decided);
  await approveAll(world, toStand);
  // Its run goes on without the dispatcher that stands, and is not to be met half-way.
  const goOn = decided.flatMap(({ point, agentId }) => (point === 'decision:sent' ? [agentId] : []));
  const closed = async (): Promise<boolean> =>
    (await world.db.run.count({ where: { agentId: { in: goOn }, state: 'closed' } })) === goOn.length;
  await until('the runs that were told to end', closed, PARKED_WITHIN_MS);
}

/** Says yes to the others, once each is parked. To be called when the fault has happened. */
export async function decideAfterwards(world: World, cases: readonly HoldCase[]): Promise<void> {
  const left = cases.filter(({ point }) => point === 'decision:parked' || point.startsWith('openHeldActions:'));
  for (const each of left) {
    // A run that stopped short before it parked is decided by nobody.
    const run = await until(
      'a run to park or to end',
      () =>
        world.db.run
          .findFirst({
            where: { agentId: each.agentId, OR: [{ parkedAt: { not: null } }, { state: 'closed' }] },
          })
          // A server may be on its way back.
          .catch(() => null),
      PARKED_WITHIN_MS,
    );
    if (run.state === 'open') await approveAll(world, [each]);
  }
}

/** How many of these stand by being parked: nothing of them is in a worker that could say so. */
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
  await world.db.transaction(async (tx) => {
    for (const { id, sha256, companyId } of held) {
      const by = { keyId: world.host.person.id, name: world.host.person.name, companyId };
      await decideHeldAction(tx, by, id, { decision: 'approve', hash: sha256 });
    }
  });
}
