// Locks the row of a run, for the execution that owns it or for another part of the store. fence.ts decides what an
// activity may do with the run.

import type { DeclaredReply, Ending, OnCrash, Rights } from '../../../workflows/contract';
import { Prisma } from '../../generated/client';
import { forNoKeyUpdate } from '../db/lock-order';
import type { SqlTx } from '../db/transaction';

/** The Temporal execution of the caller. Its run id comes from the activity's context, never from an input. */
export interface Execution {
  readonly workflowId: string;
  readonly temporalRunId: string;
}

/** A run's row while its lock is held. */
export interface LockedRun {
  readonly id: string;
  readonly agentId: string;
  readonly messageId: string;
  readonly roomId: string;
  readonly companyId: string;
  readonly state: 'open' | 'closed';
  readonly ending: Ending | null;
  readonly onCrash: OnCrash;
  readonly hop: number;
  readonly reply: DeclaredReply | null;
  readonly replySha256: string | null;
  readonly rights: Rights | null;
}

/** A `LockedRun`, as columns of `runs`. */
export const RUN_COLUMNS = Prisma.sql`
  runs.id, runs.agent_id AS "agentId", runs.message_id AS "messageId", runs.room_id AS "roomId",
  runs.company_id AS "companyId", runs.state, runs.ending, runs.on_crash AS "onCrash", runs.hop, runs.reply,
  runs.reply_sha256 AS "replySha256", runs.rights`;

/** A condition: this execution owns the run. The two ids never change, so the condition needs no lock. */
export function isOwn(runId: string, execution: Execution): Prisma.Sql {
  return Prisma.sql`
    (runs.id = ${runId} AND runs.temporal_run_id = ${execution.temporalRunId}
     AND runs.workflow_id = ${execution.workflowId})`;
}

/** Locks the run's row if this execution owns it; undefined otherwise. */
export async function lockOwnedRunRow(tx: SqlTx, execution: Execution, runId: string): Promise<LockedRun | undefined> {
  const [run] = await tx.$queryRaw<LockedRun[]>`
    SELECT ${RUN_COLUMNS} FROM runs WHERE ${isOwn(runId, execution)}
    ${forNoKeyUpdate(tx, 'run')}`;
  return run;
}

/** Locks a run's row, whether or not the caller's execution owns it. @throws Error if there is no such run */
export async function loadLockedRun(tx: SqlTx, runId: string): Promise<LockedRun> {
  const [run] = await tx.$queryRaw<LockedRun[]>`
    SELECT ${RUN_COLUMNS} FROM runs WHERE id = ${runId} ${forNoKeyUpdate(tx, 'run')}`;
  if (!run) throw new Error('no such run');
  return run;
}
