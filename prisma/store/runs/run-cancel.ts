// Ends runs from outside: a person cancels, a company is suspended or leaves, a room closes, an agent is removed. In the
// caller's transaction, with or without a running worker: the workflows are signalled afterwards.

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

  /** Takes the rooms' locks: it must be the last thing its transaction does. */
  async append(tx: Tx): Promise<void> {
    const byRoom = [...this.#drafts].sort(([a], [b]) => (a < b ? -1 : 1));
    for (const [, draft] of byRoom) await draft.append(tx);
  }
}

/**
 * Closes the matching open runs as cancelled and stages their events. `runs` is a condition on the table `runs`.
 *
 * The caller has locked, for update, the memberships or roster rows under which a claim could open another such run.
 */
export async function cancelOpenRuns(
  tx: Tx,
  drafts: RoomDrafts,
  runs: Prisma.Sql,
  cancelled: { readonly by: string; readonly why: string },
): Promise<void> {
  const open = await tx.$queryRaw<{ id: string }[]>`
    SELECT id FROM runs WHERE state = 'open' AND ${runs} ORDER BY room_id, id`;
  // All are locked before one is closed: closing locks held actions, which come after runs in the order of locks.
  const locked: LockedRun[] = [];
  for (const { id } of open) locked.push(await loadLockedRun(tx, id));
  for (const run of locked) {
    if (run.state === 'open') await cancelLockedRun(tx, drafts.of(run.roomId), run, cancelled);
  }
}

/**
 * Cancels a run of the caller's company; false when it was cancelled before.
 *
 * It must be the last call of its transaction: it takes the room's lock.
 * @throws NotFound to a caller that may not know the run; NotAllowed to other companies in its room; Conflict when the run
 * ended otherwise
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

// The caller appends the draft.
async function cancelLockedRun(
  tx: SqlTx,
  draft: RoomDraft,
  run: LockedRun,
  cancelled: { by: string; why: string },
): Promise<void> {
  await closeLockedRun(tx, draft, run, { kind: 'cancelled' }, cancelled);
  await addRecheckSignal(tx, run.id);
}
