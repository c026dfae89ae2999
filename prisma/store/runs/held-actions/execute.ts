// Held actions of a run: frozen when they open (open.ts), executed as frozen. Decisions are in decide.ts, reads in read.ts.
//
//   held ──approve──▶ approved ──its step──▶ executed | superseded | failed
//     ├──decline──▶ declined
//     ├──expires_at, by Postgres' clock──▶ expired
//     └──the run ends first (from approved too)──▶ superseded

import { createHash } from 'node:crypto';
import canonicalize from 'canonicalize';
import type { DeclaredAction, Rights } from '../../../../workflows/contract';
import type { HoldRecord, Move } from '../../../../workflows/policy/next-move';
import { WAKES_CHANNEL } from '../../rooms/room-draft';
import { notifyAfterCommit } from '../../db/notifications';
import type { LockedRun } from '../locked-run';
import { forNoKeyUpdate } from '../../db/lock-order';
import type { SqlTx } from '../../db/transaction';

/** The reconciler checks a run with an unexecuted decision after this time, and signals it again. */
export const EXECUTION_SECONDS = 60;
/** How often the reconciler checks a parked run. */
export const PARKED_CHECK_SECONDS = 3_600;
/** When the reconciler checks any other open run after its progress changed. */
const OPEN_CHECK_SECONDS = 15;

/** The frozen action, or null if it was redacted or does not match its hash. */
export async function loadFrozen(tx: SqlTx, runId: string, stepKey: string): Promise<DeclaredAction | null> {
  const [row] = await tx.$queryRaw<{ action: string | null; sha256: string }[]>`
    SELECT action, sha256 FROM held_actions WHERE run_id = ${runId} AND step_key = ${stepKey}
    ${forNoKeyUpdate(tx, 'held_action')}`;
  if (!row) throw new Error('no such held action');
  if (row.action === null || sha256Of(row.action) !== row.sha256) return null;
  return JSON.parse(row.action) as DeclaredAction;
}

/** Records the result of an approved action, in the transaction of its step. */
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
  if (!settled) throw new Error('an action was executed without approval');
  notifyAfterCommit(tx, settled.companyId);
}

/** Ends the held and approved actions of a closing run: the approved action of `failedStep` as failed, others as superseded. */
export async function supersedeHeldActions(tx: SqlTx, runId: string, failedStep: string | null): Promise<void> {
  // Not declared as a lock: held actions are locked only under their run's lock, which the caller holds.
  const [ended] = await tx.$queryRaw<{ companyId: string }[]>`
    UPDATE held_actions SET changed_at = clock_ms(),
      state = CASE WHEN state = 'approved' AND step_key = ${failedStep} THEN 'failed' ELSE 'superseded' END
    WHERE run_id = ${runId} AND state IN ('held', 'approved')
    RETURNING company_id AS "companyId"`;
  if (ended) notifyAfterCommit(tx, ended.companyId);
}

/** The held actions of a run, in the order of their decisions. They do not change while the caller holds the run's lock. */
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
 * Records whether a run is parked, and sets the reconciler's next check. A parked run waits for a decision or its signal.
 *
 * Parked time does not count against the time limit.
 */
export async function recordProgress(tx: SqlTx, runId: string, move: Move, rights: Rights): Promise<void> {
  const decided = move.kind === 'act' && rights[move.step.kind] === 'hold';
  const parked = decided || move.kind === 'wait';
  const checkSeconds = decided ? EXECUTION_SECONDS : parked ? PARKED_CHECK_SECONDS : OPEN_CHECK_SECONDS;
  // A parked run leaves the company's limit of runs in flight: a waiting wake may start.
  await tx.$queryRaw`
    UPDATE runs SET
      parked_ms = parked_ms + coalesce(extract(epoch FROM clock_ms() - parked_at) * 1000, 0)::bigint,
      parked_at = CASE WHEN ${parked} THEN clock_ms() END,
      decided_at = CASE WHEN ${decided} THEN clock_ms() END,
      due_at = clock_ms() + make_interval(secs => ${checkSeconds})
    WHERE id = ${runId}
    RETURNING CASE WHEN ${parked} AND EXISTS (
      SELECT FROM wakes w WHERE w.company_id = runs.company_id AND w.state = 'pending'
    ) THEN pg_notify(${WAKES_CHANNEL}, '')::text END`;
}

/** The stored form of an action, and its hash. */
export function freeze(declared: DeclaredAction): { action: string; sha256: string } {
  const action = canonicalize(declared);
  if (action === undefined) throw new Error('the action is not JSON');
  return { action, sha256: sha256Of(action) };
}

function sha256Of(text: string): string {
  return createHash('sha256').update(text).digest('hex');
}
