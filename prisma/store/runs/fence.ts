// The fence. Every activity after the claim passes it; every step is one transaction inside it.
//
//   lock membership and roster, then the run's row if this execution owns the run   no row → Fenced: not_mine
//   the step has a row → return its record, even if the run is closed
//   the run is closed → Fenced: closed
//   the step is held and not approved → no effect
//   re-check → superseded · effect · step row · close, if no step is left · room events and wakes last · commit

import type { ActionOf, Ending, Rights, StepKind, StepState } from '../../../workflows/contract';
import type { CloseReason, StepRecord } from '../../../workflows/policy/ending';
import { nextMove, type HoldRecord } from '../../../workflows/policy/next-move';
import { actionOf, declaredKinds, planSteps, type Step } from '../../../workflows/policy/steps';
import { Prisma } from '../../generated/client';
import { isOwn, lockOwnedRunRow, loadLockedRun, RUN_COLUMNS, type Execution, type LockedRun } from './locked-run';
import { closeLockedRun, insertStep, type RecordedStep } from './run-closing';
import { RoomDraft, type Author } from '../rooms/room-draft';
import { Fenced } from '../db/errors';
import { loadFrozen, recordProgress, settleApproved } from './held-actions/execute';
import { ROSTER_RIGHTS, type RoomForWrite } from '../rooms/roster';
import type { Database } from '../db/database';
import { inStatement } from '../db/sql-errors';
import { forNoKeyUpdate, forShare } from '../db/lock-order';
import { write, type PipelineTx, type SqlTx } from '../db/transaction';

/** The present context of a run: its room, its agent, and whether the agent may still act there. */
export interface RunContext {
  readonly room: RoomForWrite;
  readonly author: Author;
  readonly rights: Rights;
  /** Why the agent may no longer act here, or null. */
  readonly gone: 'not_a_member' | 'room_closed' | null;
}

/** The result of a step's effect. Any state but `done` wrote nothing. */
export type Effect =
  | { readonly state: 'done'; readonly effectId: string }
  | { readonly state: 'superseded' | 'refused' | 'failed'; readonly code: string };

/** The input of a step's effect. */
export interface StepContext<K extends StepKind> {
  readonly tx: SqlTx;
  readonly draft: RoomDraft;
  readonly run: LockedRun;
  readonly runContext: RunContext;
  readonly action: ActionOf<K>;
  /** The action was approved some time ago: its subject must not have changed since. */
  readonly wasHeld: boolean;
}

/** Stages the effect of a step into the draft; it may read. */
export type StepEffect<K extends StepKind = StepKind> = (context: StepContext<K>) => Promise<Effect>;

export interface StepOutcome {
  /** `held`: the step did nothing, because it is not approved. */
  readonly state: StepState | 'held';
  readonly code: string | null;
  /** The run's ending, when this step was its last. */
  readonly ending: Ending | null;
}

/**
 * Executes one step of a run at most once, and closes the run if no step is left. A recorded step returns its record.
 *
 * `effect` may run again: after a deadlock and, until `giveUpAt` (epoch ms), after any other failure that is known not to
 * have committed.
 * @throws Fenced if another execution owns the run or the run is closed; Transient if the outcome is unknown.
 */
export async function executeStepOnce(
  db: Database,
  execution: Execution,
  runId: string,
  stepKey: string,
  effect: StepEffect,
  giveUpAt = 0,
): Promise<StepOutcome> {
  const act = async (tx: PipelineTx): Promise<StepOutcome | 'not_mine'> => {
    const owned = await lockOwnedRun(tx, execution, runId);
    if (!owned) return 'not_mine';
    const { run, runContext, done, holds } = owned;
    const recorded = done.find((record) => record.key === stepKey);
    if (recorded) return { state: recorded.state, code: recorded.code, ending: run.ending };
    if (run.state === 'closed') throw new Fenced('closed');
    const { reply, rights } = run;
    if (reply === null || rights === null) throw new Error('a step acts before a reply is stored');
    const steps = planSteps(declaredKinds(reply));
    const step = steps.find((planned) => planned.key === stepKey);
    if (!step) throw new Error('the stored reply declares no such step');
    const hold = holds.find((each) => each.key === stepKey);
    if (hold && hold.state !== 'approved') return { state: unapprovedState(hold), code: null, ending: null };

    const draft = new RoomDraft(run.roomId);
    const action = hold ? await loadFrozen(tx, run.id, stepKey) : actionOf(reply, step);
    const superseded = recheck(step, steps, done, runContext, hold) ?? (action === null ? 'not_as_frozen' : undefined);
    const result: Effect =
      superseded !== undefined || action === null
        ? { state: 'superseded', code: superseded ?? 'not_as_frozen' }
        : await effect({ tx, draft, run, runContext, action, wasHeld: hold !== undefined });
    const record = {
      key: stepKey,
      state: result.state,
      code: result.state === 'done' ? null : result.code,
      effectId: result.state === 'done' ? result.effectId : null,
    };
    if (hold) await settleApproved(tx, run.id, stepKey, HELD_ACTION_AFTER[result.state]);
    const left = holds.filter((each) => each !== hold);
    const move = nextMove(steps, rights, [...done, record], left);
    let ending: Ending | null = null;
    if (move.kind === 'close') {
      ending = await closeLockedRun(tx, draft, run, { kind: 'ended' }, null, {
        step,
        record,
        before: done,
        holds: left,
      });
    } else {
      await insertStep(tx, run.id, step, record);
      if (holds.length > 0) await recordProgress(tx, run.id, move, rights);
    }
    draft.appendAndCommit(tx);
    return { state: record.state, code: record.code, ending };
  };
  const outcome = await db.sqlTransaction(act, { giveUpAt });
  if (outcome === 'not_mine') return refuseOtherExecution(db, runId);
  return outcome;
}

const HELD_ACTION_AFTER: Readonly<Record<Effect['state'], 'executed' | 'superseded' | 'failed'>> = {
  done: 'executed',
  superseded: 'superseded',
  refused: 'failed',
  failed: 'failed',
};

/** The outcome of a step that was executed without approval. */
function unapprovedState(hold: HoldRecord): 'held' | 'declined' | 'expired' {
  switch (hold.state) {
    case 'held':
    case 'declined':
    case 'expired':
      return hold.state;
    case 'approved':
    case 'superseded':
    case 'executed':
    case 'failed':
      throw new Error('an action of an open run has ended without its step');
  }
}

/**
 * Closes a run for the execution that owns it and returns its ending, or returns the ending of a closed run.
 * @throws Fenced `not_mine`
 */
export async function closeRun(
  db: Database,
  execution: Execution,
  runId: string,
  reason: CloseReason,
  cancelled: { by: string; why: string } | null = null,
): Promise<Ending> {
  const ending = await db.sqlTransaction(async (tx): Promise<Ending | 'not_mine'> => {
    const run = await lockOwnedRunRow(tx, execution, runId);
    if (!run) return 'not_mine';
    if (run.ending !== null) return run.ending;
    const draft = new RoomDraft(run.roomId);
    const computed = await closeLockedRun(tx, draft, run, reason, cancelled);
    draft.appendAndCommit(tx);
    return computed;
  });
  if (ending === 'not_mine') return refuseOtherExecution(db, runId);
  return ending;
}

/**
 * The ending of this execution's run, or null while it is open. Does not count a fenced execution.
 * @throws Fenced `not_mine`
 */
export async function findEnding(db: Database, execution: Execution, runId: string): Promise<Ending | null> {
  const run = await db.sqlTransaction((tx) => lockOwnedRunRow(tx, execution, runId));
  if (!run) throw new Fenced('not_mine');
  return run.ending;
}

/** Closes an open run that no execution will close. Returns false if it was closed already. */
export async function closeAsLost(db: Database, runId: string): Promise<boolean> {
  return db.sqlTransaction(async (tx) => {
    const run = await loadLockedRun(tx, runId);
    if (run.state === 'closed') return false;
    const draft = new RoomDraft(run.roomId);
    await closeLockedRun(tx, draft, run, { kind: 'lost' }, null);
    draft.appendAndCommit(tx);
    return true;
  });
}

/** Counts a fenced execution on the run that it does not own. @throws Fenced `not_mine`, always */
export async function refuseOtherExecution(db: Database, runId: string): Promise<never> {
  await inStatement(db.$executeRaw`UPDATE runs SET fenced_count = fenced_count + 1 WHERE id = ${runId}`);
  throw new Fenced('not_mine');
}

/** `RunContext.gone` as a column, from a room `r`, a membership `m` and a roster row `ra`. */
export const GONE = Prisma.sql`
  CASE WHEN r.closed_at IS NOT NULL THEN 'room_closed'
       WHEN m.left_at IS NOT NULL OR ra.removed_at IS NOT NULL THEN 'not_a_member' END AS gone`;

/** A run that this execution owns, locked with its membership and roster rows, and its context. */
export interface OwnedRun {
  readonly run: LockedRun;
  readonly runContext: RunContext;
  readonly done: readonly RecordedStep[];
  /** In the order of their decisions; undecided last. */
  readonly holds: readonly HoldRecord[];
}

/**
 * Takes the locks of a run's activity in lock order: membership, roster, and the run if this execution owns it. Reads need a
 * second statement: a statement that waits for a lock reads the other rows as they were before the wait.
 */
export async function lockMembershipAndRun(tx: SqlTx, execution: Execution, runId: string): Promise<void> {
  await write(tx)`
    SELECT 1 AS locked
    FROM room_members m
    JOIN runs ON m.room_id = runs.room_id AND m.company_id = runs.company_id
    JOIN room_agents ra ON ra.room_id = runs.room_id AND ra.agent_id = runs.agent_id
    WHERE ${isOwn(runId, execution)}
    ${forShare(tx, { membership: 'm', roster: 'ra' })} ${forNoKeyUpdate(tx, { run: 'runs' })}`;
}

/** Locks membership, roster and the run if this execution owns it, and reads its context; undefined otherwise. */
export async function lockOwnedRun(tx: SqlTx, execution: Execution, runId: string): Promise<OwnedRun | undefined> {
  await lockMembershipAndRun(tx, execution, runId);
  const [row] = await tx.$queryRaw<OwnedRunRow[]>`
    SELECT ${RUN_COLUMNS}, ${GONE}, r.hop_limit AS "hopLimit", r.run_allowance AS "runAllowance",
           r.paused_at IS NOT NULL AS "roomPaused", r.closed_at IS NOT NULL AS "roomClosed", a.name AS "agentName",
           ${ROSTER_RIGHTS} AS "rosterRights",
           (SELECT coalesce(jsonb_agg(jsonb_build_object('key', s.step_key, 'state', s.state, 'code', s.code,
                                                         'effectId', s.effect_id)), '[]')
            FROM run_steps s WHERE s.run_id = runs.id) AS done,
           (SELECT coalesce(jsonb_agg(jsonb_build_object('key', h.step_key, 'state', h.state)
                                      ORDER BY h.decided_at, h.id), '[]')
            FROM held_actions h WHERE h.run_id = runs.id) AS holds
    FROM runs
    JOIN rooms r ON r.id = runs.room_id
    JOIN agents a ON a.id = runs.agent_id
    JOIN room_members m ON m.room_id = runs.room_id AND m.company_id = runs.company_id
    JOIN room_agents ra ON ra.room_id = runs.room_id AND ra.agent_id = runs.agent_id
    WHERE ${isOwn(runId, execution)}`;
  if (!row) return undefined;
  return {
    run: row,
    runContext: {
      room: {
        id: row.roomId,
        hopLimit: row.hopLimit,
        runAllowance: row.runAllowance,
        paused: row.roomPaused,
        closed: row.roomClosed,
        roster: { read: null },
      },
      author: { kind: 'agent', id: row.agentId, name: row.agentName, companyId: row.companyId },
      rights: row.rosterRights,
      gone: row.gone,
    },
    done: row.done,
    holds: row.holds,
  };
}

interface OwnedRunRow extends LockedRun {
  readonly hopLimit: number;
  readonly runAllowance: number;
  readonly roomPaused: boolean;
  readonly roomClosed: boolean;
  readonly agentName: string;
  readonly gone: RunContext['gone'];
  readonly rosterRights: Rights;
  readonly done: readonly RecordedStep[];
  readonly holds: readonly HoldRecord[];
}

// The rights stored with the reply are checked again before the effect: a stricter right supersedes the step.
function recheck(
  step: Step,
  steps: readonly Step[],
  done: readonly StepRecord[],
  runContext: RunContext,
  hold: HoldRecord | undefined,
): string | undefined {
  if (runContext.gone !== null) return runContext.gone;
  const kind: StepKind = step.kind;
  // An approval counts while the right is `hold` or `go`.
  const right = runContext.rights[kind];
  if (right === 'refuse' || (right === 'hold' && hold === undefined)) return 'right_revoked';
  const declaresReply = steps.some((planned) => planned.kind === 'reply');
  const replied = done.some((record) => record.key === 'reply' && record.state === 'done');
  if (kind !== 'reply' && declaresReply && !replied) return 'reply_not_posted';
  return undefined;
}
