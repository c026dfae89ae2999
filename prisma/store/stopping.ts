// Runs stopped from outside: cancelled by a person, or because their company may not act any more. The row is closed here,
// with or without a worker running; the workflow is told afterwards.

import { closeLockedRun } from './closing';
import { RoomDraft } from './draft';
import { Conflict, NotAllowed, NotFound } from './errors';
import { loadLockedRun, type LockedRun } from './runs';
import { addRecheckSignal } from './signals';
import type { SqlTx } from './transaction';

/** Closes a locked run as cancelled and has its workflow told. The caller appends the draft. */
export async function cancelLockedRun(
  tx: SqlTx,
  draft: RoomDraft,
  run: LockedRun,
  cancelled: { by: string; why: string },
): Promise<void> {
  await closeLockedRun(tx, draft, run, { kind: 'cancelled' }, cancelled);
  await addRecheckSignal(tx, run.id);
}

/**
 * Cancels a run of the caller's company. A cancelled run stays as it is: that is no error.
 *
 * It must be the last thing its transaction does: it takes the room's lock.
 * @throws NotFound to who may not know of it; NotAllowed to other companies in its room; Conflict when it ended otherwise
 */
export async function cancelRun(
  tx: SqlTx,
  runId: string,
  companyId: string,
  cancelled: { by: string; why: string },
): Promise<void> {
  const [seen] = await tx.$queryRaw<{ companyId: string; roomId: string }[]>`
    SELECT r.company_id AS "companyId", r.room_id AS "roomId"
    FROM runs r JOIN room_members m ON m.room_id = r.room_id AND m.company_id = ${companyId} AND m.left_at IS NULL
    WHERE r.id = ${runId}`;
  if (!seen) throw new NotFound('no such run');
  if (seen.companyId !== companyId) throw new NotAllowed('only its own company may cancel a run');
  await tx.$queryRaw`
    SELECT 1 AS locked FROM room_members WHERE room_id = ${seen.roomId} AND company_id = ${companyId} FOR SHARE`;
  const run = await loadLockedRun(tx, runId);
  if (run.ending === 'cancelled') return;
  if (run.ending !== null) throw new Conflict(`the run has ended: ${run.ending}`, run.ending);
  const draft = new RoomDraft(run.roomId);
  await cancelLockedRun(tx, draft, run, cancelled);
  await draft.append(tx);
}
