// Runs ended from outside, in the transaction of whatever ends them: a company suspended, a member that leaves, a room that
// closes, an agent that is removed. Their workflows find out at the fence.

import { Prisma } from '../generated/client';
import { closeLockedRun } from './closing';
import { RoomDraft } from './draft';
import { loadLockedRun } from './runs';
import type { Tx } from './transaction';

/** Drafts of the rooms that a transaction writes to, appended in one order at its end. */
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
 * Ends the open runs that match as cancelled and stages their events. `runs` is a condition on the table of that name.
 *
 * The caller has locked, against sharing, the memberships or roster rows under which a claim could open another such run.
 */
export async function cancelOpenRuns(
  tx: Tx,
  drafts: RoomDrafts,
  runs: Prisma.Sql,
  cancelled: { readonly by: string; readonly why: string },
): Promise<void> {
  const open = await tx.$queryRaw<{ id: string }[]>`
    SELECT id FROM runs WHERE state = 'open' AND ${runs} ORDER BY room_id, id`;
  for (const { id } of open) {
    const run = await loadLockedRun(tx, id);
    if (run.state === 'open') await closeLockedRun(tx, drafts.of(run.roomId), run, { kind: 'cancelled' }, cancelled);
  }
}
