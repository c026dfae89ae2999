// Opens the held actions of a run, through the fence. The policy decides which steps need approval.

import { nextMove, type HoldRecord } from '../../../../workflows/policy/next-move';
import { actionOf, declaredKinds, planSteps, stepsToHold } from '../../../../workflows/policy/steps';
import type { Execution } from '../locked-run';
import { Fenced } from '../../db/errors';
import { freeze, recordProgress } from './execute';
import { newId } from '../../db/ids';
import { notifyAfterCommit } from '../../db/notifications';
import { lockOwnedRun, refuseOtherExecution } from '../fence';
import type { Database } from '../../db/database';

/**
 * Opens all held actions of a run and returns the state of each.
 *
 * Idempotent. Each action expires after `expiryMs`, by Postgres' clock.
 * @throws Fenced, Transient
 */
export async function openHeldActions(
  db: Database,
  execution: Execution,
  runId: string,
  expiryMs: number,
): Promise<HoldRecord[]> {
  const opened = await db.sqlTransaction(async (tx): Promise<HoldRecord[] | 'not_mine'> => {
    const owned = await lockOwnedRun(tx, execution, runId);
    if (!owned) return 'not_mine';
    const { run, done, holds } = owned;
    if (run.state === 'closed') throw new Fenced('closed');
    const { reply, rights } = run;
    if (reply === null || rights === null) throw new Error('an action is held before a reply is stored');
    const steps = planSteps(declaredKinds(reply));
    const rows = stepsToHold(steps, rights)
      .filter((step) => !holds.some((hold) => hold.key === step.key))
      .map((step) => ({ id: newId('held'), step_key: step.key, kind: step.kind, ...freeze(actionOf(reply, step)) }));
    if (rows.length > 0) {
      await tx.$executeRaw`
        INSERT INTO held_actions (id, run_id, step_key, room_id, company_id, agent_id, kind, action, sha256, expires_at)
        SELECT x.id, ${run.id}, x.step_key, ${run.roomId}, ${run.companyId}, ${run.agentId}, x.kind, x.action, x.sha256,
               clock_ms() + make_interval(secs => ${expiryMs / 1_000})
        FROM jsonb_to_recordset(${JSON.stringify(rows)}::jsonb)
             AS x(id text, step_key text, kind text, action text, sha256 text)`;
      notifyAfterCommit(tx, run.companyId);
    }
    const all = [...holds, ...rows.map((row): HoldRecord => ({ key: row.step_key, state: 'held' }))];
    await recordProgress(tx, run.id, nextMove(steps, rights, done, all), rights);
    return all;
  });
  return opened === 'not_mine' ? refuseOtherExecution(db, runId) : opened;
}
