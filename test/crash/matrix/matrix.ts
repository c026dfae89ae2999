// Runs the table, one fault after the other. For each fault, the runs of all points and both policies are held together and
// get the fault together.

import type { Progress } from '../../../bench/progress';
import { runCrashBatch } from '../../support/crash-faults';
import type { CrashServers } from '../../support/crash-servers';
import type { ScriptedModel } from '../../support/scripted-model-server';
import { judgeCell, listCells, skipCell, type CellResult } from './cells';
import type { FaultResult, MatrixState } from './state';

export interface MatrixDeps {
  readonly servers: CrashServers;
  readonly model: ScriptedModel;
  readonly progress: Progress;
  /** After an abort no further fault starts. */
  readonly signal: AbortSignal;
  readonly onDone: (result: FaultResult) => Promise<void>;
}

/** Runs the faults that the state does not contain yet. */
export async function runMatrix(state: MatrixState, deps: MatrixDeps): Promise<void> {
  const total = listCells(state.faults).length;
  for (const fault of state.faults) {
    if (state.done.some((each) => each.fault === fault)) continue;
    deps.signal.throwIfAborted();
    const before = state.done.reduce((sum, each) => sum + each.cells.length, 0);
    const cells = listCells([fault]);
    const skipped = cells.map(skipCell);
    const run = cells.filter((_, index) => skipped[index] === null);
    const notRun = cells.length - run.length;
    deps.progress.begin(fault);
    let done = before;
    const batch = await runCrashBatch({
      fault,
      cases: run.map(({ point, policy }) => ({ point, onCrash: policy })),
      model: deps.model,
      servers: deps.servers,
      signal: deps.signal,
      onProgress: (what, ended) => {
        if (ended > 0) done = before + notRun + ended;
        deps.progress.at(`${done} of ${total} cells done; ${what}`);
      },
    });
    const outcomes = [...batch.outcomes];
    const results = cells.map((cell, index): CellResult => {
      const outcome = skipped[index] === null ? outcomes.shift() : undefined;
      return outcome === undefined ? (skipped[index] as CellResult) : judgeCell(cell, outcome);
    });
    const result = { fault, seconds: batch.seconds, cells: results };
    state.done.push(result);
    await deps.onDone(result);
  }
}
