// The cells of the table: every crash point, fault and policy, and the result of each.

import type { CrashOutcome } from '../../support/crash-outcome';
import { replacementOf, whyNotApplicable, type CrashFault } from '../../support/crash-faults';
import { ALL_CRASH_POINTS, type CrashPoint } from '../../support/crash-points';
import { ON_CRASH, type OnCrash } from '../../../workflows/contract';

export interface Cell {
  readonly point: CrashPoint;
  readonly fault: CrashFault;
  readonly policy: OnCrash;
}

export type CellResult = Cell &
  (
    | { readonly verdict: 'not_applicable'; readonly why: string }
    | {
        readonly verdict: 'clean' | 'not_clean';
        /** The fault that was applied instead, if the fault is not possible at the point itself; else null. */
        readonly instead: string | null;
        readonly outcome: CrashOutcome;
      }
  );

/** All cells of these faults, ordered by fault. */
export function listCells(faults: readonly CrashFault[]): Cell[] {
  return faults.flatMap((fault) =>
    ALL_CRASH_POINTS.flatMap((point) => ON_CRASH.map((policy) => ({ point, fault, policy }))),
  );
}

/** The result of a cell to which the fault does not apply, or null. */
export function skipCell(cell: Cell): CellResult | null {
  const why = whyNotApplicable(cell.fault, cell.point);
  return why === null ? null : { ...cell, verdict: 'not_applicable', why };
}

export function judgeCell(cell: Cell, outcome: CrashOutcome): CellResult {
  const nearest = replacementOf(cell.fault, cell.point);
  const { cut } = outcome;
  const at = cut === null ? '' : ` (${cut.activity}, transaction ${cut.transaction})`;
  return {
    ...cell,
    verdict: outcome.why.length === 0 ? 'clean' : 'not_clean',
    instead: nearest === null ? null : nearest + at,
    outcome,
  };
}

export interface Counts {
  readonly cells: number;
  readonly clean: number;
  readonly notClean: number;
  readonly notApplicable: number;
}

export function countCells(results: readonly CellResult[]): Counts {
  const of = (verdict: CellResult['verdict']): number => results.filter((cell) => cell.verdict === verdict).length;
  return {
    cells: results.length,
    clean: of('clean'),
    notClean: of('not_clean'),
    notApplicable: of('not_applicable'),
  };
}
