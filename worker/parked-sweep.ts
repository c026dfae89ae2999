// Parked runs: there are many, and they wait for days, so they are not checked one by one every few seconds. Executions that
// ended while parked are in a short list of recently closed ones. Open ones are checked a page per pass, to find copies of a
// run that would never get a decision.

import type { WorkflowExecutionInfo } from '@temporalio/client';
import { findExecutionsWithoutRun, findOpenRunsOf, leaseOrphans } from '../prisma/store/runs/reconciliation';
import { closeAsLost } from '../prisma/store/runs/fence';
import { RUN_STATE } from '../workflows/search-attributes';
import { createLoop, type Loop } from './loop';
import { ofRuns, signalOrphans, type ReconcilerDeps, type ReconcilerLoopDeps } from './reconciler';

/** Open executions per pass: 10,000 parked runs are checked within ten minutes. */
const PAGE = 200;
/** Most recently closed executions per pass. */
const CLOSED_LIMIT = 1_000;
/** How far back that list goes: visibility may be late, and the reconcilers may have been down for a while. */
const CLOSED_WITHIN_MS = 15 * 60_000;

interface ListedExecution {
  readonly workflowId: string;
  readonly temporalRunId: string;
}

export interface ParkedSweep {
  /** One pass; returns how many runs it closed and executions it signalled. Continues where the pass before ended. */
  runOnce(): Promise<number>;
}

export function createParkedSweepLoop({ reconciler, intervalMs, log, onPass }: ReconcilerLoopDeps): Loop {
  const sweep = createParkedSweep(reconciler);
  return createLoop({
    intervalMs,
    onError: (error) => log.error({ err: error }, 'sweep of parked runs failed'),
    onPass,
    runOnce: () => sweep.runOnce(),
  });
}

export function createParkedSweep(deps: ReconcilerDeps): ParkedSweep {
  let open: AsyncIterator<WorkflowExecutionInfo> | null = null;

  const closeLostRuns = async (): Promise<number> => {
    const since = new Date(Date.now() - CLOSED_WITHIN_MS).toISOString();
    // A run that ends normally changes its search attribute first: an execution that closed as parked was terminated or failed.
    const query = `${ofRuns(deps)} AND ${RUN_STATE} = 'parked' AND ExecutionStatus != 'Running' AND CloseTime > '${since}'`;
    const closed: ListedExecution[] = [];
    for await (const execution of deps.client.workflow.list({ query, pageSize: PAGE })) {
      closed.push(listed(execution));
      if (closed.length >= CLOSED_LIMIT) break;
    }
    const lost = await findOpenRunsOf(deps.db, closed);
    for (const run of lost) {
      if (await closeAsLost(deps.db, run.id)) deps.onAction('run is lost', { run: run.id, workflow: run.workflowId });
    }
    return lost.length;
  };

  const signalOpenOrphans = async (): Promise<number> => {
    const query = `${ofRuns(deps)} AND ${RUN_STATE} = 'parked' AND ExecutionStatus = 'Running'`;
    open ??= deps.client.workflow.list({ query, pageSize: PAGE })[Symbol.asyncIterator]();
    const page: ListedExecution[] = [];
    while (page.length < PAGE) {
      const next = await open.next();
      if (next.done === true) {
        open = null;
        break;
      }
      page.push(listed(next.value));
    }
    const { orphanGraceSeconds, recheckSeconds } = deps.times;
    const orphans = [
      ...(await leaseOrphans(deps.db, page, orphanGraceSeconds, recheckSeconds)),
      ...(await findExecutionsWithoutRun(deps.db, page)),
    ];
    await signalOrphans(deps, orphans);
    return orphans.length;
  };

  return {
    async runOnce() {
      try {
        return (await closeLostRuns()) + (await signalOpenOrphans());
      } catch (error) {
        // The next pass lists from the beginning: a listing that failed can't be continued.
        open = null;
        throw error;
      }
    },
  };
}

function listed(execution: WorkflowExecutionInfo): ListedExecution {
  return { workflowId: execution.workflowId, temporalRunId: execution.runId };
}
