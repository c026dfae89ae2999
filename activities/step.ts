// What every acting step takes and gives back.

import type { StepOutcome } from '../prisma/store/runs';
import type { StepResult } from '../workflows/contract';

export interface StepInput {
  readonly run: string;
  /** The step's key in the ledger; which entry of the stored reply it carries out follows from it. */
  readonly step: string;
}

export function stepResult(outcome: StepOutcome): StepResult {
  return { state: outcome.state, ...(outcome.ending === null ? {} : { ending: outcome.ending }) };
}
