// Closes a run whose row is locked: computes its ending, records every declared step, and stages the event.

import type { Ending } from '../../../workflows/contract';
import { computeEnding, type CloseReason, type RequestRecord, type StepRecord } from '../../../workflows/policy/ending';
import type { HoldRecord } from '../../../workflows/policy/next-move';
import { declaredKinds, planSteps, type Step } from '../../../workflows/policy/steps';
import { Prisma } from '../../generated/client';
import { settlement } from '../eligibility/budgets';
import { WAKES_CHANNEL, type RoomDraft } from '../rooms/room-draft';
import { loadHolds, supersedeHeldActions } from './held-actions/execute';
import type { LockedRun } from './locked-run';
import { write, type SqlTx } from '../db/transaction';

export interface RecordedStep extends StepRecord {
  readonly effectId: string | null;
}

/**
 * Closes a run, stages its `run_ended` event, and returns its ending.
 *
 * The ending is computed from the rows in Postgres and `reason`, never from the workflow's state. The function also erases
 * the rendered context, ends unanswered requests, supersedes held actions that were not executed, and settles the budget
 * that the wake reserved. `last` is the step that the caller just executed: its row is written with those of the missing steps.
 */
export async function closeLockedRun(
  tx: SqlTx,
  draft: RoomDraft,
  run: LockedRun,
  reason: CloseReason,
  cancelled: { by: string; why: string } | null,
  last?: {
    readonly step: Step;
    readonly record: RecordedStep;
    readonly before: readonly RecordedStep[];
    readonly holds: readonly HoldRecord[];
  },
): Promise<Ending> {
  const done = last ? [...last.before, last.record] : await loadSteps(tx, run.id);
  const holds = last?.holds ?? (await loadHolds(tx, run));
  const requests = run.reply === null ? await loadRequests(tx, run.id) : { records: [], limit: 0, retryAt: null };
  const { ending, code, missing } = computeEnding(
    {
      steps: run.reply === null ? null : planSteps(declaredKinds(run.reply)),
      rights: run.rights,
      done,
      holds,
      requests: requests.records,
      ...(requests.limit > 0 ? { requestsLimit: requests.limit } : {}),
    },
    reason,
  );
  if (holds.some((hold) => hold.state === 'held' || hold.state === 'approved')) {
    await supersedeHeldActions(tx, run.id, reason.kind === 'failed' ? (reason.step ?? null) : null);
  }
  const rows = missing.map(({ step, ...record }) => stepColumns(step, { ...record, effectId: null }));
  if (last) rows.push(stepColumns(last.step, last.record));
  await write(tx)`
    WITH unanswered AS (
      ${endUnanswered(run.id)}
    ), steps AS (
      INSERT INTO run_steps (run_id, step_key, position, kind, state, code, effect_id)
      SELECT ${run.id}, x.step_key, x.position, x.kind, x.state, x.code, x.effect_id
      FROM jsonb_to_recordset(${JSON.stringify(rows)}::jsonb)
           AS x(step_key text, position int, kind text, state text, code text, effect_id text)
    ), settled AS (${settlement(run)}
    )
    UPDATE runs SET state = 'closed', ending = ${ending}, code = ${code}, closed_at = clock_ms(), context = NULL,
                    parked_at = NULL, decided_at = NULL, due_at = clock_ms(),
                    parked_ms = parked_ms + coalesce(extract(epoch FROM clock_ms() - parked_at) * 1000, 0)::bigint,
                    cancelled_by = ${cancelled?.by ?? null}, cancel_reason = ${cancelled?.why ?? null},
                    retry_at = ${ending === 'busy' ? requests.retryAt : null}
    WHERE id = ${run.id}
    RETURNING CASE WHEN EXISTS (SELECT FROM wakes w WHERE w.company_id = ${run.companyId} AND w.state = 'pending')
              THEN pg_notify(${WAKES_CHANNEL}, '')::text END`;
  const posted = done.find((record) => record.key === 'reply')?.effectId ?? null;
  draft.addEvent({
    type: 'run_ended',
    author: null,
    companyId: run.companyId,
    subjectId: run.id,
    data: { run: run.id, agent: run.agentId, message: run.messageId, ending, posted },
  });
  return ending;
}

/** The statement that ends a run's unanswered request as `unknown`. The request still counts against the limit. */
export function endUnanswered(runId: string): Prisma.Sql {
  return Prisma.sql`
    UPDATE model_requests SET outcome = 'unknown', code = 'unknown', ended_at = clock_ms()
    WHERE run_id = ${runId} AND outcome = 'in_flight'`;
}

/** The recorded steps of a run. They do not change while the caller holds the run's lock. */
export async function loadSteps(tx: SqlTx, runId: string): Promise<RecordedStep[]> {
  return tx.$queryRaw<RecordedStep[]>`
    SELECT step_key AS key, state, code, effect_id AS "effectId" FROM run_steps WHERE run_id = ${runId}`;
}

/** Writes the row of one step. Besides the run's lock, the primary key prevents a second row. */
export async function insertStep(tx: SqlTx, runId: string, step: Step, record: RecordedStep): Promise<void> {
  await write(tx)`
    INSERT INTO run_steps (run_id, step_key, position, kind, state, code, effect_id)
    VALUES (${runId}, ${step.key}, ${step.position}, ${step.kind}, ${record.state}, ${record.code}, ${record.effectId})`;
}

function stepColumns(step: Step, record: RecordedStep) {
  return {
    step_key: step.key,
    position: step.position,
    kind: step.kind,
    state: record.state,
    code: record.code,
    effect_id: record.effectId,
  };
}

async function loadRequests(
  tx: SqlTx,
  runId: string,
): Promise<{ records: RequestRecord[]; limit: number; retryAt: Date | null }> {
  const rows = await tx.$queryRaw<(RequestRecord & { retryAt: Date | null; ownerSupplied: boolean })[]>`
    SELECT q.number, q.outcome, q.code, q.ended_at + make_interval(secs => q.named_wait_ms / 1000.0) AS "retryAt",
           coalesce(k.owner_supplied, false) AS "ownerSupplied"
    FROM model_requests q JOIN runs r ON r.id = q.run_id LEFT JOIN model_keys k ON k.id = r.model_key_id
    WHERE q.run_id = ${runId} ORDER BY q.number`;
  const last = rows.at(-1);
  return { records: rows, limit: last?.ownerSupplied ? 1 : 0, retryAt: last?.retryAt ?? null };
}
