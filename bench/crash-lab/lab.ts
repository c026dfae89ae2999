// Runs the lab on given servers: opens one lane per way, measures the cost of each, and kills their workers at every point.

import { randomBytes } from 'node:crypto';
import { join } from 'node:path';
import { measureCost, type Cost } from './cost';
import { writeLabBundle } from './lab-bundle';
import { openLane, type Lane } from './lane';
import { scriptModel } from './model-script';
import type { Observation } from './observation';
import { windowOf, WINDOWS, type Point } from './points';
import type { LabServers } from './servers';
import type { LabSettings } from './settings';
import { pointsOfWay, type Way } from './ways';

export interface LabResult {
  readonly settings: LabSettings;
  /** Each cell has `settings.jobs` observations. */
  readonly observations: readonly Observation[];
  /** Observations of jobs that did not reach their point or were disturbed, and were repeated. Their double effects still count. */
  readonly discarded: readonly Observation[];
  readonly deaths: number;
  readonly cost: ReadonlyMap<Way, Cost>;
}

export interface LabProgress {
  begin(what: string): void;
  at(detail: string): void;
}

/** How often a job without a valid observation is repeated. */
const MAX_REPEATS = 3;

/** Runs the lab and stops what it started, also after an error. `atEnd` receives a function that stops it from outside. */
export async function runLab(
  servers: LabServers,
  settings: LabSettings,
  progress: LabProgress,
  atEnd: (stop: () => Promise<void>) => void = () => undefined,
): Promise<LabResult> {
  const lanes: Lane[] = [];
  let stopping: Promise<void> | undefined;
  const stop = (): Promise<void> =>
    (stopping ??= (async () => void (await Promise.all(lanes.map((lane) => lane.stop()))))());
  atEnd(stop);
  try {
    progress.begin('bundling the workflows');
    const bundle = join(servers.scratch, 'lab-bundle.js');
    await writeLabBundle(bundle);
    const masterKeys = `lab:${randomBytes(32).toString('base64')}`;
    const model = scriptModel(servers.model);
    progress.begin('opening the databases');
    for (const way of settings.ways) {
      lanes.push(await openLane(way, servers, { masterKeys, bundle, model, times: settings.times }));
    }
    progress.begin('starting a worker of each way');
    const measuresCost = settings.costJobs > 0;
    await Promise.all(lanes.map((lane) => lane.startWorker(measuresCost)));
    progress.begin('cost of each way without a crash');
    const cost = measuresCost
      ? await measureCost(lanes, settings.costJobs, (detail) => progress.at(detail))
      : new Map();
    progress.begin('killing workers');
    const killed = await killAll(lanes, settings, (detail) => progress.at(detail));
    return { settings, ...killed, cost };
  } finally {
    await stop();
  }
}

async function killAll(
  lanes: readonly Lane[],
  settings: LabSettings,
  at: (detail: string) => void,
): Promise<Pick<LabResult, 'observations' | 'discarded' | 'deaths'>> {
  const observations: Observation[] = [];
  const discarded: Observation[] = [];
  let deaths = 0;
  const cells = lanes.reduce((sum, lane) => sum + pointsOfWay(lane.way, settings.points).length, 0);
  const report = (): void => {
    const done = new Map<string, number>();
    for (const { way, point } of observations) done.set(`${way} ${point}`, (done.get(`${way} ${point}`) ?? 0) + 1);
    const whole = [...done.values()].filter((count) => count >= settings.jobs).length;
    const jobs = `${observations.length} of ${cells * settings.jobs} jobs`;
    at(`${whole} of ${cells} cells done, ${jobs}, ${deaths} workers killed`);
  };
  report();
  const working = lanes.map(async (lane, index) => {
    const points = pointsOfWay(lane.way, settings.points);
    const queue = planDeaths(points, settings.jobs, settings.perDeath, index);
    const repeats = new Map<Point, number>();
    for (let next = queue.shift(); next !== undefined; next = queue.shift()) {
      const observed = await lane.die(next);
      deaths += 1;
      const repeat: Point[] = [];
      for (const observation of observed) {
        const { point, reached, disturbed } = observation;
        const tries = repeats.get(point) ?? 0;
        if ((!reached || disturbed) && tries < MAX_REPEATS) {
          repeats.set(point, tries + 1);
          discarded.push(observation);
          repeat.push(point);
        } else {
          observations.push(observation);
        }
      }
      if (repeat.length > 0) queue.push(repeat);
      report();
    }
  });
  try {
    await Promise.all(working);
  } catch (error) {
    // Stop the other lanes before their servers stop.
    await Promise.all(lanes.map((lane) => lane.stop()));
    await Promise.allSettled(working);
    throw error;
  }
  return { observations, discarded, deaths };
}

/**
 * Groups the points that share one kill: never two jobs of one cell, which must be independent, and mostly points of one
 * window, which recover in the same time. `first` is the first window, so that lanes do not all wait for the slowest at once.
 */
export function planDeaths(points: readonly Point[], jobs: number, perDeath: number, first = 0): Point[][] {
  const windows = [...WINDOWS.slice(first % WINDOWS.length), ...WINDOWS.slice(0, first % WINDOWS.length)];
  const round = windows.flatMap((window) => points.filter((point) => windowOf(point) === window));
  const all = Array.from({ length: jobs }, () => round).flat();
  const size = Math.max(1, Math.min(perDeath, round.length));
  const planned: Point[][] = [];
  for (let from = 0; from < all.length; from += size) planned.push(all.slice(from, from + size));
  return planned;
}
