// The table, a fault after the other: all points and both policies of a fault stand at once and suffer it at once.

import type { Progress } from '../../bench/progress';
import { runCrashBatch } from '../../support/crash-faults';
import type { CrashServers } from '../../support/crash-servers';
import type { ScriptedModel } from '../../support/scripted-model-server';
import { judgeCell, listCells, skipCell, type CellResult } from './cells';
import type { FaultResult, MatrixState } from './state';

export interface MatrixGround {
  readonly servers: CrashServers;
  readonly model: ScriptedModel;
  readonly progress: Progress;
  /** Asked before each fault; throws when it is not to be begun any more. */
  readonly checkTime: () => void;
  readonly onDone: (result: FaultResult) => Promise<void>;
}

/** Does what the state does not hold yet. */
export async function runMatrix(state: MatrixState, ground: MatrixGround): Promise<void> {
  const total = listCells(state.faults).length;
  for (const fault of state.faults) {
    if (state.done.some((each) => each.fault === fault)) continue;
    ground.checkTime();
    const before = state.done.reduce((sum, each) => sum + each.cells.length, 0);
    const cells = listCells([fault]);
    const skipped = cells.map(skipCell);
    const run = cells.filter((_, index) => skipped[index] === null);
    const notRun = cells.length - run.length;
    ground.progress.begin(`${fault}, ${before} of ${total} cells done`);
    const batch = await runCrashBatch({
      fault,
      cases: run.map(({ point, policy }) => ({ point, onCrash: policy })),
      model: ground.model,
      servers: ground.servers,
      onProgress: (what, ended) => {
        ground.progress.at(`${what}; ${before + (ended === 0 ? 0 : ended + notRun)} of ${total} cells`);
      },
    });
    const outcomes = [...batch.outcomes];
    const results = cells.map((cell, index): CellResult => {
      const outcome = skipped[index] === null ? outcomes.shift() : undefined;
      return outcome === undefined ? (skipped[index] as CellResult) : judgeCell(cell, outcome);
    });
    const done = { fault, seconds: batch.seconds, cells: results };
    state.done.push(done);
    await ground.onDone(done);
  }
}
