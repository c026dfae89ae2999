// The decision of a held action: by a person of the agent's own company, or by expiry. Written with its outbox row, under
// the locks of membership, run and action in that order; a dispatcher signals the workflow.

import type { Decision, DeclaredReply, HeldActionState, Rights } from '../../../../workflows/contract';
import { nextMove, type HoldRecord } from '../../../../workflows/policy/next-move';
import { declaredKinds, planSteps } from '../../../../workflows/policy/steps';
import type { RecordedStep } from '../run-closing';
import { Conflict, Gone, NotFound } from '../../db/errors';
import { EXECUTION_SECONDS } from './execute';
import { notifyAfterCommit } from '../../db/notifications';
import { addDecisionSignal } from '../signals';
import type { Database } from '../../db/database';
import { forNoKeyUpdate, forShare } from '../../db/lock-order';
import type { SqlTx } from '../../db/transaction';

/** The signed-in person who decides. */
export interface Decider {
  readonly keyId: string;
  readonly name: string;
  readonly companyId: string;
}

interface HeldFacts {
  readonly id: string;
  readonly step: string;
  readonly runId: string;
  readonly companyId: string;
  readonly state: HeldActionState;
  readonly sha256: string;
  readonly decision: Decision | null;
  readonly isPast: boolean;
  readonly runIsOpen: boolean;
  readonly isParked: boolean;
  readonly reply: DeclaredReply | null;
  readonly rights: Rights | null;
  readonly done: readonly RecordedStep[];
  readonly holds: readonly HoldRecord[];
}

/**
 * Records a person's decision about exactly this action; false if the same decision was recorded before.
 *
 * In the caller's transaction. Expiry is by Postgres' clock, even if the reconciler has not recorded it yet.
 * @throws NotFound if the action belongs to another company; Conflict if the hash differs, the opposite decision was
 * recorded, or the run ended; Gone if the action expired
 */
export async function decideHeldAction(
  tx: SqlTx,
  by: Decider,
  heldActionId: string,
  answer: { readonly decision: Decision; readonly hash: string },
): Promise<boolean> {
  const held = await lockHeldAction(tx, heldActionId, by.companyId);
  if (!held) throw new NotFound('no such held action');
  const { decision, hash } = answer;
  if (hash !== held.sha256) throw new Conflict('the hash does not match the action', held.state);
  if (held.decision === decision) return false;
  if (held.decision !== null) throw new Conflict(`the action is ${held.state}`, held.state);
  if (held.state === 'expired') throw new Gone('the action is expired', 'expired');
  if (held.state !== 'held' || !held.runIsOpen) {
    const state = held.state === 'held' ? 'superseded' : held.state;
    throw new Conflict(`the action is ${state}`, state);
  }
  const state = decision === 'approve' ? 'approved' : 'declined';
  // The statement checks expiry again: no decision is recorded at or after `expires_at`.
  const decided = await tx.$executeRaw`
    UPDATE held_actions SET state = ${state}, decision = ${decision}, decided_by = ${by.keyId},
                            decided_by_name = ${by.name}, decided_at = clock_ms(), changed_at = clock_ms()
    WHERE id = ${held.id} AND state = 'held' AND expires_at > clock_ms()`;
  if (decided === 0) throw new Gone('the action is expired', 'expired');
  notifyAfterCommit(tx, held.companyId);
  await notifyRun(tx, held, state);
  return true;
}

/**
 * Expires up to `limit` held actions whose time is over, each in a separate transaction, and returns their number.
 *
 * If the run is closed, the action is superseded instead. Only an older version, without held actions, leaves this state.
 */
export async function expireHeldActions(db: Database, limit: number): Promise<number> {
  const due = await db.$queryRaw<{ id: string }[]>`
    SELECT id FROM held_actions WHERE state = 'held' AND expires_at <= clock_ms() ORDER BY expires_at LIMIT ${limit}`;
  let expired = 0;
  for (const { id } of due) {
    expired += await db.sqlTransaction(async (tx) => {
      const held = await lockHeldAction(tx, id, null);
      if (held?.state !== 'held' || !held.isPast) return 0;
      const state = held.runIsOpen ? 'expired' : 'superseded';
      await tx.$executeRaw`
        UPDATE held_actions SET state = ${state}, changed_at = clock_ms() WHERE id = ${id} AND state = 'held'`;
      notifyAfterCommit(tx, held.companyId);
      if (state === 'expired') await notifyRun(tx, held, state);
      return 1;
    });
  }
  return expired;
}

// Two statements: a statement that waits for a lock reads the other rows as they were before the wait.
async function lockHeldAction(
  tx: SqlTx,
  heldActionId: string,
  companyId: string | null,
): Promise<HeldFacts | undefined> {
  await tx.$queryRaw`
    SELECT 1 AS locked
    FROM room_members m
    JOIN held_actions h ON h.room_id = m.room_id AND h.company_id = m.company_id
    JOIN runs r ON r.id = h.run_id
    WHERE h.id = ${heldActionId} AND (${companyId}::text IS NULL OR h.company_id = ${companyId})
    ${forShare(tx, { membership: 'm' })} ${forNoKeyUpdate(tx, { run: 'r', held_action: 'h' })}`;
  const [held] = await tx.$queryRaw<HeldFacts[]>`
    SELECT h.id, h.step_key AS step, h.run_id AS "runId", h.company_id AS "companyId", h.state, h.sha256,
           h.decision, h.expires_at <= clock_ms() AS "isPast", r.state = 'open' AS "runIsOpen",
           r.parked_at IS NOT NULL AS "isParked", r.reply, r.rights,
           (SELECT coalesce(jsonb_agg(jsonb_build_object('key', s.step_key, 'state', s.state, 'code', s.code,
                                                         'effectId', s.effect_id)), '[]')
            FROM run_steps s WHERE s.run_id = r.id) AS done,
           (SELECT coalesce(jsonb_agg(jsonb_build_object('key', o.step_key, 'state', o.state)
                                      ORDER BY o.decided_at, o.id), '[]')
            FROM held_actions o WHERE o.run_id = r.id AND o.id <> h.id) AS holds
    FROM held_actions h JOIN runs r ON r.id = h.run_id
    WHERE h.id = ${heldActionId} AND (${companyId}::text IS NULL OR h.company_id = ${companyId})`;
  return held;
}

// Writes the outbox row and, if the run now has a step to execute, the time of the decision for the reconciler.
async function notifyRun(tx: SqlTx, held: HeldFacts, state: 'approved' | 'declined' | 'expired'): Promise<void> {
  await addDecisionSignal(tx, held.runId, held.id);
  if (!held.isParked || stillWaits(held, state)) return;
  await tx.$executeRaw`
    UPDATE runs SET decided_at = coalesce(decided_at, clock_ms()),
                    due_at = least(due_at, clock_ms() + make_interval(secs => ${EXECUTION_SECONDS}))
    WHERE id = ${held.runId}`;
}

function stillWaits({ step, reply, rights, done, holds }: HeldFacts, state: HeldActionState): boolean {
  if (reply === null || rights === null) return false;
  return nextMove(planSteps(declaredKinds(reply)), rights, done, [...holds, { key: step, state }]).kind === 'wait';
}
