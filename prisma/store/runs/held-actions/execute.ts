// Held actions of a run: frozen when they open (`open.ts`), carried out as they were frozen. What people decide of
// them is `decide.ts`'; what they see of them, `read.ts`'.
//
//   held ──yes──▶ approved ──its step──▶ executed | superseded | failed
//     ├──no──▶ declined
//     ├──expires_at, by Postgres' clock──▶ expired
//     └──the run ended otherwise (from approved too)──▶ superseded

import { createHash } from 'node:crypto';
import canonicalize from 'canonicalize';
import type { DeclaredAction, Rights } from '../../../../workflows/contract';
import type { HoldRecord, Move } from '../../../../workflows/policy/next-move';
import { WAKES_CHANNEL } from '../../rooms/room-draft';
import { notifyAfterCommit } from '../../db/notifications';
import type { LockedRun } from '../locked-run';
import { forNoKeyUpdate } from '../../db/lock-order';
import type { SqlTx } from '../../db/transaction';

/** A run with a decision to carry out is looked at after this long, and told again. */
export const CARRY_OUT_SECONDS = 60;
/** A parked run is looked at once in this time, which is all that it costs. */
export const PARKED_LOOK_SECONDS = 3_600;
/** Any other open run, after its standing changed. */
const OPEN_LOOK_SECONDS = 15;

/** The action as it was frozen, if it is still what its hash says; null when it was redacted or is another. */
export async function loadFrozen(tx: SqlTx, runId: string, stepKey: string): Promise<DeclaredAction | null> {
  const [row] = await tx.$queryRaw<{ action: string | null; sha256: string }[]>`
    SELECT action, sha256 FROM held_actions WHERE run_id = ${runId} AND step_key = ${stepKey}
    ${forNoKeyUpdate(tx, 'held_action')}`;
  if (!row) throw new Error('no such held action');
  if (row.action === null || sha256Of(row.action) !== row.sha256) return null;
  return JSON.parse(row.action) as DeclaredAction;
}

/** Records what became of an approved action, in the transaction of its step. */
export async function settleApproved(
  tx: SqlTx,
  runId: string,
  stepKey: string,
  state: 'executed' | 'superseded' | 'failed',
): Promise<void> {
  const [settled] = await tx.$queryRaw<{ companyId: string }[]>`
    UPDATE held_actions SET state = ${state}, changed_at = clock_ms()
    WHERE run_id = ${runId} AND step_key = ${stepKey} AND state = 'approved'
    RETURNING company_id AS "companyId"`;
  if (!settled) throw new Error('an action was carried out that nobody approved');
  notifyAfterCommit(tx, settled.companyId);
}

/** Ends every action of a closing run that is held or approved: `failedStep`'s attempt failed, the others lost their run. */
export async function supersedeHeldActions(tx: SqlTx, runId: string, failedStep: string | null): Promise<void> {
  // Not declared as locks: held actions are only locked under their run's lock, which the caller has.
  const [ended] = await tx.$queryRaw<{ companyId: string }[]>`
    UPDATE held_actions SET changed_at = clock_ms(),
      state = CASE WHEN state = 'approved' AND step_key = ${failedStep} THEN 'failed' ELSE 'superseded' END
    WHERE run_id = ${runId} AND state IN ('held', 'approved')
    RETURNING company_id AS "companyId"`;
  if (ended) notifyAfterCommit(tx, ended.companyId);
}

/** The held actions of a run, those decided first before the others. Read under the run's lock, they can't change. */
export async function loadHolds(tx: SqlTx, run: Pick<LockedRun, 'id' | 'rights'>): Promise<HoldRecord[]> {
  if (!mayHold(run.rights)) return [];
  return tx.$queryRaw<HoldRecord[]>`
    SELECT step_key AS key, state FROM held_actions WHERE run_id = ${run.id} ORDER BY decided_at, id`;
}

/** Whether a run under these rights can have held actions. */
export function mayHold(rights: Rights | null): boolean {
  return rights !== null && Object.values(rights).includes('hold');
}

/**
 * Records whether a run is parked, that is waits for somebody's yes or to be told of one, as its next move says.
 *
 * Its time limit is less of the time in which it is. When the reconciler looks at it next follows from it too.
 */
export async function recordProgress(tx: SqlTx, runId: string, move: Move, rights: Rights): Promise<void> {
  const decided = move.kind === 'act' && rights[move.step.kind] === 'hold';
  const parked = decided || move.kind === 'wait';
  const lookSeconds = decided ? CARRY_OUT_SECONDS : parked ? PARKED_LOOK_SECONDS : OPEN_LOOK_SECONDS;
  // Its place among its company's runs in flight is free: a wake that waited for one can have it.
  await tx.$queryRaw`
    UPDATE runs SET
      parked_ms = parked_ms + coalesce(extract(epoch FROM clock_ms() - parked_at) * 1000, 0)::bigint,
      parked_at = CASE WHEN ${parked} THEN clock_ms() END,
      decided_at = CASE WHEN ${decided} THEN clock_ms() END,
      due_at = clock_ms() + make_interval(secs => ${lookSeconds})
    WHERE id = ${runId}
    RETURNING CASE WHEN ${parked} AND EXISTS (
      SELECT FROM wakes w WHERE w.company_id = runs.company_id AND w.state = 'pending'
    ) THEN pg_notify(${WAKES_CHANNEL}, '')::text END`;
}

/** An action as it is kept, and its hash. */
export function freeze(declared: DeclaredAction): { action: string; sha256: string } {
  const action = canonicalize(declared);
  if (action === undefined) throw new Error('an action that is no JSON');
  return { action, sha256: sha256Of(action) };
}

function sha256Of(text: string): string {
  return createHash('sha256').update(text).digest('hex');
}
