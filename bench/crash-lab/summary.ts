// Totals of the observations per cell and per way, and the expectations that make the result valid.

import { median, sum } from '../statistics';
import type { Cost } from './cost';
import type { LabResult } from './lab';
import {
  actedTwice,
  isFinished,
  outcomeOf,
  OUTCOMES,
  type Observation,
  type Outcome,
  type PickedUpBy,
} from './observation';
import { windowOf, type Point } from './points';
import { pointsOfWay, WAY_FACTS, type Way } from './ways';

export interface Tally {
  readonly jobs: number;
  readonly finished: number;
  readonly actedTwice: number;
  readonly postedNone: number;
  /** Jobs with lost steps. */
  readonly unfinished: number;
  /** Declared steps that are not done and will never be done, over all jobs. */
  readonly lostSteps: number;
  readonly modelAskedAgain: number;
  readonly mostModelRequests: number;
  readonly pickedUpBy: Readonly<Record<PickedUpBy, number>>;
  readonly pickedUpMs: { readonly median: number; readonly max: number } | null;
  readonly settledMs: { readonly median: number; readonly max: number } | null;
  /** Jobs after which a new message asked what is left, and how many of them the new run completed. */
  readonly askedAgain: number;
  readonly completedLater: number;
  readonly unsettled: number;
}

export interface Cell extends Tally {
  readonly way: Way;
  readonly point: Point;
  /** The worst outcome of the cell, and the number of jobs with it. */
  readonly outcome: Outcome;
  readonly outcomeJobs: number;
}

export interface WaySummary extends Tally {
  readonly way: Way;
  readonly cost: Cost | null;
}

export interface Summary {
  readonly ways: readonly WaySummary[];
  readonly cells: readonly Cell[];
}

export function summarize(result: LabResult): Summary {
  const { ways, points } = result.settings;
  return {
    ways: ways.map((way) => ({
      way,
      ...tally(result.observations.filter((each) => each.way === way)),
      cost: result.cost.get(way) ?? null,
    })),
    cells: ways.flatMap((way) =>
      pointsOfWay(way, points).map((point): Cell => {
        const ofCell = result.observations.filter((each) => each.way === way && each.point === point);
        const outcome = OUTCOMES.find((one) => ofCell.some((each) => outcomeOf(each) === one)) ?? 'unfinished';
        const outcomeJobs = ofCell.filter((each) => outcomeOf(each) === outcome).length;
        return { way, point, ...tally(ofCell), outcome, outcomeJobs };
      }),
    ),
  };
}

function tally(of: readonly Observation[]): Tally {
  const count = (is: (each: Observation) => boolean): number => of.filter(is).length;
  const asked = of.filter((each) => each.next !== null);
  const by = (cause: PickedUpBy): number => count((each) => each.pickedUpBy === cause);
  return {
    jobs: of.length,
    finished: count(isFinished),
    actedTwice: count(actedTwice),
    postedNone: count((each) => each.posts === 0),
    unfinished: count((each) => !isFinished(each)),
    lostSteps: sum(of.map((each) => each.lostSteps)),
    modelAskedAgain: count((each) => each.requests > 1),
    mostModelRequests: Math.max(0, ...of.map((each) => each.requests)),
    pickedUpBy: {
      attempt: by('attempt'),
      replay: by('replay'),
      ending: by('ending'),
      nothing_left: by('nothing_left'),
      nothing: by('nothing'),
    },
    pickedUpMs: medianAndMax(of.map((each) => each.pickedUpMs)),
    settledMs: medianAndMax(of.map((each) => each.settledMs)),
    askedAgain: asked.length,
    completedLater: asked.filter((each) => each.next?.completedLater).length,
    unsettled: count((each) => !each.settled),
  };
}

function medianAndMax(values: readonly (number | null)[]): { median: number; max: number } | null {
  const known = values.filter((value) => value !== null);
  if (known.length === 0) return null;
  return { median: Math.round(median(known)), max: Math.round(Math.max(...known)) };
}

/** The expectations that the result does not meet; empty if the result is valid. */
export function findBrokenExpectations(result: LabResult): string[] {
  const broken: string[] = [];
  const twice = (way: Way): Observation[] =>
    [...result.observations, ...result.discarded].filter((each) => each.way === way && actedTwice(each));
  for (const way of result.settings.ways) {
    const name = `way ${WAY_FACTS[way].number}, “${WAY_FACTS[way].title}”`;
    const acted = twice(way);
    switch (way) {
      case 'top':
      case 'replay':
        if (acted.length === 0)
          broken.push(`${name}, never acted twice: the kills had no effect, so the lab proves nothing`);
        break;
      case 'record':
        if (!acted.some((each) => windowOf(each.point) === 'between')) {
          broken.push(`${name}, did not show the gap between an effect and its record, so the lab proves nothing`);
        }
        break;
      case 'stop':
      case 'resume':
        for (const each of acted) {
          const counts = `${each.posts} posts, ${each.memory} memory entries, ${each.tasks} tasks`;
          broken.push(`${name}, acted twice after a kill at ${each.point}: ${counts}`);
        }
        break;
    }
    const unsettled = result.observations.filter((each) => each.way === way && !each.settled);
    for (const each of unsettled) broken.push(`${name}: a job killed at ${each.point} did not settle in time`);
    const missed = result.observations.filter((each) => each.way === way && !each.reached);
    for (const each of missed) broken.push(`${name}: no worker could be killed at ${each.point}`);
  }
  return broken;
}
