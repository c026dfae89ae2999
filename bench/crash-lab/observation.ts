// One job whose worker died at one point, counted after it settled.

import type { Counts } from './job-rooms';
import type { Point } from './points';
import type { Way } from './ways';

/**
 * What picked the work up. `attempt`: another attempt of the activity. `replay`: the workflow, replayed on another worker.
 * `ending`: nothing did, the run was closed short, and a new message is what goes on. `nothing_left`: the run had ended
 * before the kill. `nobody`: it had not settled when the lab stopped waiting.
 */
export type PickedUpBy = 'attempt' | 'replay' | 'ending' | 'nothing_left' | 'nobody';

export interface Observation extends Counts {
  readonly way: Way;
  readonly point: Point;
  /** False: the worker died before the job stood at its point, and the job says nothing about it. */
  readonly reached: boolean;
  /** An attempt failed that no kill explains: the machine was too slow for the time-outs. */
  readonly disturbed: boolean;
  readonly settled: boolean;
  readonly requests: number;
  /** Declared steps that are not done and never will be. */
  readonly lostSteps: number;
  readonly pickedUpBy: PickedUpBy;
  /** From the kill until something began for this job, or its run was closed; null: nothing was left to begin. */
  readonly pickedUpMs: number | null;
  /** From the kill to the job's end. */
  readonly settledMs: number | null;
  readonly ending: string | null;
  readonly code: string | null;
  /** A person asked what is left, and a fresh run looked into the room. Null where nothing was left. */
  readonly next: { readonly madeGood: boolean; readonly ending: string } | null;
}

export type Outcome = 'finished' | 'acted_twice' | 'posted_none' | 'unfinished';

/** From the worst to the best. */
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

/** The one thing to say of a job, the worst first: a job that acted twice may be finished too. */
export function outcomeOf(counts: Counts): Outcome {
  if (actedTwice(counts)) return 'acted_twice';
  if (counts.posts === 0) return 'posted_none';
  return isFinished(counts) ? 'finished' : 'unfinished';
}
