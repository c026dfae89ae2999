// The result of one job whose worker was killed at one point, counted after the job settled.

import type { Counts } from './job-rooms';
import type { Point } from './points';
import type { Way } from './ways';

/**
 * What continued the work. `attempt`: another attempt of the activity. `replay`: the workflow, replayed on another worker.
 * `ending`: nothing; the run was closed unfinished, and a new message can continue. `nothing_left`: the run had ended before
 * the kill. `nothing`: the job had not settled when the lab stopped waiting.
 */
export type PickedUpBy = 'attempt' | 'replay' | 'ending' | 'nothing_left' | 'nothing';

export interface Observation extends Counts {
  readonly way: Way;
  readonly point: Point;
  /** False if the worker died before the job reached its point; the observation is then not valid for the point. */
  readonly reached: boolean;
  /** True if an attempt failed without a kill, because the machine was too slow for the timeouts. */
  readonly disturbed: boolean;
  readonly settled: boolean;
  readonly requests: number;
  /** Declared steps that are not done and will never be done. */
  readonly lostSteps: number;
  readonly pickedUpBy: PickedUpBy;
  /** From the kill until work on this job continued or its run was closed; null if no work was left. */
  readonly pickedUpMs: number | null;
  /** From the kill to the job's end. */
  readonly settledMs: number | null;
  readonly ending: string | null;
  readonly code: string | null;
  /** The result of a new run that was asked to complete the job. Null if no work was left. */
  readonly next: { readonly completedLater: boolean; readonly ending: string } | null;
}

export type Outcome = 'finished' | 'acted_twice' | 'posted_none' | 'unfinished';

/** From worst to best. */
export const OUTCOMES: readonly Outcome[] = ['acted_twice', 'posted_none', 'unfinished', 'finished'];

export function actedTwice(counts: Counts): boolean {
  return counts.posts > 1 || counts.memory > 1 || counts.tasks > 1;
}

export function isFinished(counts: Counts): boolean {
  return counts.posts > 0 && counts.memory > 0 && counts.tasks > 0;
}

export function lostSteps(counts: Counts): number {
  return [counts.posts, counts.memory, counts.tasks].filter((count) => count === 0).length;
}

/** The worst outcome of a job: a job that acted twice may also be finished. */
export function outcomeOf(counts: Counts): Outcome {
  if (actedTwice(counts)) return 'acted_twice';
  if (counts.posts === 0) return 'posted_none';
  return isFinished(counts) ? 'finished' : 'unfinished';
}
