// Parked runs, which are many and wait for days: none is asked after one by one every few seconds. Those whose execution
// ended while parked are in a short listing of what closed lately; what is still open is gone through a page at a time,
// for copies of a run that nobody would ever decide.

import type { WorkflowExecutionInfo } from '@temporalio/client';
import { findOpenRunsOf, findExecutionsWithoutRun, leaseOrphans } from '../prisma/store/runs/reconciliation';
import { closeAsLost } from '../prisma/store/runs/fence';
import { RUN_STATE } from '../workflows/search-attributes';
import { ofRuns, tellStrays, type ReconcilerDeps } from './reconciler';

/** A pass goes through as many open executions: 10,000 parked runs within ten minutes. */
const PAGE = 200;
/** Most executions closed while parked that one pass looks at. */
const CLOSED_LATELY = 1_000;
/** How far back that listing goes: visibility may be late, and a reconciler may have been away for a while. */
const LATELY_MS = 15 * 60_000;

interface Seen {
  readonly workflowId: string;
  readonly temporalRunId: string;
}

export interface ParkedSweep {
  /** One pass; returns how many it ended or told to look again. Goes on where the one before stopped. */
  runOnce(): Promise<number>;
}

export function createParkedSweep(deps: ReconcilerDeps): ParkedSweep {
  let open: AsyncIterator<WorkflowExecutionInfo> | null = null;

  const endLost = async (): Promise<number> => {
    const since = new Date(Date.now() - LATELY_MS).toISOString();
    // A run that ends by itself says so: what closed as parked was terminated, or failed.
    const query = `${ofRuns(deps)} AND ${RUN_STATE} = 'parked' AND ExecutionStatus != 'Running' AND CloseTime > '${since}'`;
    const closed: Seen[] = [];
    for await (const execution of deps.client.workflow.list({ query, pageSize: PAGE })) {
      closed.push(seenOf(execution));
      if (closed.length >= CLOSED_LATELY) break;
    }
    const lost = await findOpenRunsOf(deps.db, closed);
    for (const run of lost) {
      if (await closeAsLost(deps.db, run.id)) deps.onAction('run is lost', { run: run.id, workflow: run.workflowId });
    }
    return lost.length;
  };

  const tellOpen = async (): Promise<number> => {
    const query = `${ofRuns(deps)} AND ${RUN_STATE} = 'parked' AND ExecutionStatus = 'Running'`;
    open ??= deps.client.workflow.list({ query, pageSize: PAGE })[Symbol.asyncIterator]();
    const page: Seen[] = [];
    while (page.length < PAGE) {
      const next = await open.next();
      if (next.done === true) {
        open = null;
        break;
      }
      page.push(seenOf(next.value));
    }
    const { strayGraceSeconds, lookAgainSeconds } = deps.times;
    const strays = [
      ...(await leaseOrphans(deps.db, page, strayGraceSeconds, lookAgainSeconds)),
      ...(await findExecutionsWithoutRun(deps.db, page)),
    ];
    await tellStrays(deps, strays);
    return strays.length;
  };

  return {
    async runOnce() {
      try {
        return (await endLost()) + (await tellOpen());
      } catch (error) {
        // Begun anew: a listing that failed half-way does not go on.
        open = null;
        throw error;
      }
    },
  };
}

function seenOf(execution: WorkflowExecutionInfo): Seen {
  return { workflowId: execution.workflowId, temporalRunId: execution.runId };
}
