// The claim: one row for each agent and message, written once and never released, by an execution or by the reconciler.

import type { Ending, OnCrash, WakeState } from '../../../workflows/contract';
import { Prisma } from '../../generated/client';
import { RoomDraft } from '../rooms/room-draft';
import {
  GATED_WAKES,
  MAY_BE_CLAIMED,
  REVOCATION_FACTS,
  revocationReason,
  type RevocationFacts,
} from '../eligibility/gates';
import { newId } from '../db/ids';
import { closeLockedRun } from './run-closing';
import { loadLockedRun, type Execution } from './locked-run';
import { startTasks } from '../rooms/tasks';
import type { Database } from '../db/database';
import { declareLock, forNoKeyUpdate, forShare } from '../db/lock-order';
import type { Pipelined, PipelineTx, SqlTx } from '../db/transaction';

export type ClaimOutcome =
  | {
      readonly kind: 'granted';
      readonly runId: string;
      readonly wakeId: string;
      readonly roomId: string;
      readonly onCrash: OnCrash;
      readonly timeLimitMs: number;
    }
  /** Granted, and closed: at once because a gate of the wake is closed, or earlier by another part of the store. */
  | { readonly kind: 'closed'; readonly runId: string; readonly ending: Ending }
  | { readonly kind: 'refused'; readonly why: ClaimRefusal; readonly runId: string | null };

export type ClaimRefusal = 'already_claimed' | 'no_wake' | 'not_delivered' | 'suppressed';

type WakeFacts = RevocationFacts & {
  readonly state: WakeState;
  readonly roomId: string;
  readonly companyId: string;
  readonly taskId: string | null;
  readonly agentName: string;
};

/**
 * Claims a message for an agent, before anything else of the run is read or written.
 *
 * The claim is granted once. The same Temporal run gets it again, because an acknowledgement can be lost. Any other Temporal
 * run is refused, and counted on the run that has the claim. If a gate closed after the delivery, the wake is claimed and
 * its run closes as cancelled.
 */
export async function claimMessage(
  db: Database,
  execution: Execution,
  wake: { agentId: string; messageId: string },
  { timeLimitMs }: { timeLimitMs: number },
): Promise<ClaimOutcome> {
  // The fast path: almost every wake has no task and no closed gate, and is claimed in one trip to Postgres, under the same
  // locks. Every other wake takes the second transaction.
  const { rows } = await db.sqlTransaction(async (tx) => {
    void lockMembership(tx, wake);
    return insertClaim(tx, wake, execution, timeLimitMs, Prisma.sql`w.task_id IS NULL AND ${MAY_BE_CLAIMED}`);
  });
  const [claimed] = await rows;
  if (claimed) return { kind: 'granted', ...claimed, timeLimitMs };
  return db.sqlTransaction(async (tx): Promise<ClaimOutcome> => {
    const facts = await lockWakeFacts(tx, wake);
    if (!facts) return { kind: 'refused', why: 'no_wake', runId: null };
    switch (facts.state) {
      case 'claimed':
        return answerClaimed(tx, execution, wake);
      case 'delivered':
        break;
      case 'suppressed':
        return { kind: 'refused', why: 'suppressed', runId: null };
      case 'pending':
        return { kind: 'refused', why: 'not_delivered', runId: null };
    }
    const [claim] = await insertClaim(tx, wake, execution, timeLimitMs).rows;
    if (!claim) return answerClaimed(tx, execution, wake);
    const draft = new RoomDraft(facts.roomId);
    const reason = revocationReason(facts);
    if (reason !== null) {
      const run = await loadLockedRun(tx, claim.runId);
      const ending = await closeLockedRun(tx, draft, run, { kind: 'cancelled' }, { by: 'room', why: reason });
      await draft.append(tx);
      return { kind: 'closed', runId: claim.runId, ending };
    }
    if (facts.taskId !== null) {
      const agent = { kind: 'agent', id: wake.agentId, name: facts.agentName, companyId: facts.companyId } as const;
      await startTasks(tx, draft, [facts.taskId], agent);
      await draft.append(tx);
    }
    return { kind: 'granted', ...claim, timeLimitMs };
  });
}

/**
 * Ends a delivered wake that no execution will claim: takes the claim itself, with a run that is closed as lost.
 * Returns the run's id, or null when an execution claimed first or the wake is not delivered.
 */
export async function claimAsLost(
  db: Database,
  wake: { agentId: string; messageId: string; workflowId: string },
  limits: { timeLimitMs: number },
): Promise<string | null> {
  return db.sqlTransaction(async (tx) => {
    const facts = await lockWakeFacts(tx, wake);
    if (facts?.state !== 'delivered') return null;
    const execution = { workflowId: wake.workflowId, temporalRunId: null };
    const [claim] = await insertClaim(tx, wake, execution, limits.timeLimitMs).rows;
    if (!claim) return null;
    const draft = new RoomDraft(facts.roomId);
    await closeLockedRun(tx, draft, await loadLockedRun(tx, claim.runId), { kind: 'lost' }, null);
    await draft.append(tx);
    return claim.runId;
  });
}

// Membership and roster are locked before the wake: leaving, closing and removal wait for the claim, or the claim sees
// them. A separate statement: a statement that waits for a lock reads the other rows as they were before the wait.
function lockMembership(tx: PipelineTx, wake: { agentId: string; messageId: string }): Pipelined<unknown> {
  return tx.$pipeline`
    SELECT 1 AS locked
    FROM wakes w
    JOIN room_members m ON m.room_id = w.room_id AND m.company_id = w.company_id
    JOIN room_agents ra ON ra.room_id = w.room_id AND ra.agent_id = w.agent_id
    WHERE w.agent_id = ${wake.agentId} AND w.message_id = ${wake.messageId}
    ${forShare(tx, { membership: 'm', roster: 'ra' })}`;
}

async function lockWakeFacts(
  tx: PipelineTx,
  wake: { agentId: string; messageId: string },
): Promise<WakeFacts | undefined> {
  void lockMembership(tx, wake);
  const [facts] = await tx.$queryRaw<WakeFacts[]>`
    SELECT w.state, w.room_id AS "roomId", w.company_id AS "companyId", w.task_id AS "taskId", a.name AS "agentName",
           ${REVOCATION_FACTS}
    FROM ${GATED_WAKES}
    WHERE w.agent_id = ${wake.agentId} AND w.message_id = ${wake.messageId}
    ${forNoKeyUpdate(tx, { wake: 'w' })}`;
  return facts;
}

interface Claimed {
  readonly runId: string;
  readonly wakeId: string;
  readonly roomId: string;
  readonly onCrash: OnCrash;
}

// Claims a delivered wake if `condition` is true. Returns no row if it is false or the message is already claimed. The
// primary key decides: a conflict on it is a lost race; a conflict on any other constraint is a bug and throws.
function insertClaim(
  tx: PipelineTx,
  wake: { agentId: string; messageId: string },
  execution: { workflowId: string; temporalRunId: string | null },
  timeLimitMs: number,
  condition: Prisma.Sql = Prisma.sql`true`,
): Pipelined<Claimed> {
  return tx.$pipeline`
    WITH facts AS MATERIALIZED (
      SELECT w.id, w.agent_id, w.message_id, w.room_id, w.company_id, w.hop + 1 AS hop, r.on_crash,
             clock_ms() AS now
      FROM ${GATED_WAKES}
      WHERE w.agent_id = ${wake.agentId} AND w.message_id = ${wake.messageId} AND w.state = 'delivered' AND ${condition}
      ${forNoKeyUpdate(tx, { wake: 'w' })}
    ), claim AS (
      INSERT INTO agent_run_locks (agent_id, message_id, run_id, workflow_id, temporal_run_id, claimed_at)
      SELECT agent_id, message_id, ${newId('run')}, ${execution.workflowId}, ${execution.temporalRunId}, now FROM facts
      ON CONFLICT (agent_id, message_id) DO NOTHING
      RETURNING run_id
    ), run AS (
      INSERT INTO runs (id, agent_id, message_id, room_id, company_id, wake_id, workflow_id, temporal_run_id, on_crash,
                        hop, time_limit_ms, claimed_at, due_at)
      SELECT run_id, agent_id, message_id, room_id, company_id, facts.id, ${execution.workflowId},
             ${execution.temporalRunId}, on_crash, hop, ${timeLimitMs}, now, now + interval '15 seconds'
      FROM claim, facts
      RETURNING id, wake_id, room_id, on_crash
    ), wake AS (
      -- A claim proves that the workflow started, even if the dispatcher has not recorded it yet.
      UPDATE wakes SET state = 'claimed', claimed_at = now,
                       started_at = CASE WHEN ${execution.temporalRunId}::text IS NULL THEN started_at
                                         ELSE coalesce(started_at, now) END
      FROM claim, facts
      WHERE wakes.id = facts.id
    )
    SELECT id AS "runId", wake_id AS "wakeId", room_id AS "roomId", on_crash AS "onCrash" FROM run`;
}

// The answer for a wake that is already claimed: by this execution, whose acknowledgement was lost, or by another. In the
// second case the caller is refused and counted on the run.
async function answerClaimed(
  tx: SqlTx,
  execution: Execution,
  wake: { agentId: string; messageId: string },
): Promise<ClaimOutcome> {
  const [held] = await tx.$queryRaw<
    {
      runId: string;
      wakeId: string;
      roomId: string;
      temporalRunId: string | null;
      onCrash: OnCrash;
      ending: Ending | null;
      timeLimitMs: number;
    }[]
  >`
    SELECT l.run_id AS "runId", r.wake_id AS "wakeId", r.room_id AS "roomId", l.temporal_run_id AS "temporalRunId", r.on_crash AS "onCrash", r.ending,
           r.time_limit_ms AS "timeLimitMs"
    FROM agent_run_locks l JOIN runs r ON r.id = l.run_id
    WHERE l.agent_id = ${wake.agentId} AND l.message_id = ${wake.messageId}`;
  if (!held) throw new Error('a claimed wake has no claim');
  if (held.temporalRunId !== execution.temporalRunId) {
    declareLock(tx, 'run');
    await tx.$executeRaw`UPDATE runs SET fenced_count = fenced_count + 1 WHERE id = ${held.runId}`;
    return { kind: 'refused', why: 'already_claimed', runId: held.runId };
  }
  const { runId, wakeId, roomId, onCrash, ending, timeLimitMs } = held;
  return ending !== null
    ? { kind: 'closed', runId, ending }
    : { kind: 'granted', runId, wakeId, roomId, onCrash, timeLimitMs };
}
