// Closes runs from outside their workflows: a person cancels, a company is suspended or leaves, a room closes, or an agent is
// removed. It works without a worker, in the caller's transaction. The workflows are signalled afterwards.

import { Prisma } from '../../generated/client';
import { closeLockedRun } from './run-closing';
import { RoomDraft } from '../rooms/room-draft';
import { Conflict, NotAllowed, NotFound } from '../db/errors';
import { loadLockedRun, type LockedRun } from './locked-run';
import { addRecheckSignal } from './signals';
import { forShare } from '../db/lock-order';
import type { SqlTx, Tx } from '../db/transaction';

/** The drafts of all rooms that a transaction writes to, appended in the order of the rooms' ids at its end. */
export class RoomDrafts {
  readonly #drafts = new Map<string, RoomDraft>();

  of(roomId: string): RoomDraft {
    const draft = this.#drafts.get(roomId) ?? new RoomDraft(roomId);
    this.#drafts.set(roomId, draft);
    return draft;
  }

  /** Appends all drafts. It takes the rooms' locks, so it must be the last call of its transaction. */
  async append(tx: Tx): Promise<void> {
    const byRoom = [...this.#drafts].sort(([a], [b]) => (a < b ? -1 : 1));
    for (const [, draft] of byRoom) await draft.append(tx);
  }
}

/**
 * Closes the matching open runs as cancelled and stages their events. `runs` is a condition on the table `runs`.
 *
 * The caller must hold the locks of the memberships or roster rows, so that no claim opens another matching run.
 */
export async function cancelOpenRuns(
  tx: Tx,
  drafts: RoomDrafts,
  runs: Prisma.Sql,
  cancelled: { readonly by: string; readonly why: string },
): Promise<void> {
  const open = await tx.$queryRaw<{ id: string }[]>`
    SELECT id FROM runs WHERE state = 'open' AND ${runs} ORDER BY room_id, id`;
  // All runs are locked before the first is closed: closing locks held actions, which come after runs in the lock order.
  const locked: LockedRun[] = [];
  for (const { id } of open) locked.push(await loadLockedRun(tx, id));
  for (const run of locked) {
    if (run.state === 'open') await cancelLockedRun(tx, drafts.of(run.roomId), run, cancelled);
  }
}

/**
 * Cancels a run of the caller's company; false if it was cancelled before.
 *
 * It takes the room's lock, so it must be the last call of its transaction.
 * @throws NotFound if the company is not in the run's room; NotAllowed if the run belongs to another company; Conflict if
 * the run has another ending
 */
export async function cancelRun(
  tx: SqlTx,
  runId: string,
  companyId: string,
  cancelled: { by: string; why: string },
): Promise<boolean> {
  const [seen] = await tx.$queryRaw<{ companyId: string; roomId: string }[]>`
    SELECT r.company_id AS "companyId", r.room_id AS "roomId"
    FROM runs r JOIN room_members m ON m.room_id = r.room_id AND m.company_id = ${companyId} AND m.left_at IS NULL
    WHERE r.id = ${runId}`;
  if (!seen) throw new NotFound('no such run');
  if (seen.companyId !== companyId) throw new NotAllowed("only the agent's company may cancel its run");
  await tx.$queryRaw`
    SELECT 1 AS locked FROM room_members WHERE room_id = ${seen.roomId} AND company_id = ${companyId}
    ${forShare(tx, 'membership')}`;
  const run = await loadLockedRun(tx, runId);
  if (run.ending === 'cancelled') return false;
  if (run.ending !== null) throw new Conflict(`the run has ended: ${run.ending}`, run.ending);
  const draft = new RoomDraft(run.roomId);
  await cancelLockedRun(tx, draft, run, cancelled);
  await draft.append(tx);
  return true;
}

// Closes the run as cancelled and adds a signal for its workflow. The caller appends the draft.
async function cancelLockedRun(
  tx: SqlTx,
  draft: RoomDraft,
  run: LockedRun,
  cancelled: { by: string; why: string },
): Promise<void> {
  await closeLockedRun(tx, draft, run, { kind: 'cancelled' }, cancelled);
  await addRecheckSignal(tx, run.id);
}
