// The table, a fault after the other: all points and both policies of a fault stand at once and suffer it at once.

import type { Progress } from '../../../bench/progress';
import { runCrashBatch } from '../../support/crash-faults';
import type { CrashServers } from '../../support/crash-servers';
import type { ScriptedModel } from '../../support/scripted-model-server';
import { judgeCell, listCells, skipCell, type CellResult } from './cells';
import type { FaultResult, MatrixState } from './state';

export interface MatrixGround {
  readonly servers: CrashServers;
  readonly model: ScriptedModel;
  readonly progress: Progress;
  /** Aborted: nothing further is begun. */
  readonly signal: AbortSignal;
  readonly onDone: (result: FaultResult) => Promise<void>;
}

/** Does what the state does not hold yet. */
export async function runMatrix(state: MatrixState, ground: MatrixGround): Promise<void> {
  const total = listCells(state.faults).length;
  for (const fault of state.faults) {
    if (state.done.some((each) => each.fault === fault)) continue;
    ground.signal.throwIfAborted();
    const before = state.done.reduce((sum, each) => sum + each.cells.length, 0);
    const cells = listCells([fault]);
    const skipped = cells.map(skipCell);
    const run = cells.filter((_, index) => skipped[index] === null);
    const notRun = cells.length - run.length;
    ground.progress.begin(fault);
    let done = before;
    const batch = await runCrashBatch({
      fault,
      cases: run.map(({ point, policy }) => ({ point, onCrash: policy })),
      model: ground.model,
      servers: ground.servers,
      signal: ground.signal,
      onProgress: (what, ended) => {
        if (ended > 0) done = before + notRun + ended;
        ground.progress.at(`${done} of ${total} cells done; ${what}`);
      },
    });
    const outcomes = [...batch.outcomes];
    const results = cells.map((cell, index): CellResult => {
      const outcome = skipped[index] === null ? outcomes.shift() : undefined;
      return outcome === undefined ? (skipped[index] as CellResult) : judgeCell(cell, outcome);
    });
    const result = { fault, seconds: batch.seconds, cells: results };
    state.done.push(result);
    await ground.onDone(result);
  }
}
