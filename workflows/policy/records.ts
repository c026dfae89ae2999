// What is recorded of a run's steps and of its held actions. The rules read these records; the store writes them.

import type { HeldActionState, StepState } from '../contract';

/** A step that has its row, by its key. */
export interface StepRecord {
  readonly key: string;
  readonly state: StepState;
  readonly code: string | null;
}

/** A held action of the run, by the key of its step. */
export interface HoldRecord {
  readonly key: string;
  readonly state: HeldActionState;
}
