// The cost of each way without a crash. Jobs run one at a time and the ways alternate, so that all have the same conditions.

import { setTimeout as sleep } from 'node:timers/promises';
import { median, round } from '../statistics';
import { readHistory } from './history';
import type { Lane } from './lane';
import type { Way } from './ways';

const WARM_UP_JOBS = 3;
const IDLE_MS = 4_000;

export interface Cost {
  readonly jobs: number;
  readonly activities: number;
  readonly history_events: number;
  /** Statements of the workers per job, minus those of idle workers; null if they are not counted. */
  readonly statements: number | null;
  /** From the message to the job's last effect in the room, by Postgres' clock. */
  readonly wall_ms: { readonly median: number; readonly least: number; readonly most: number };
}

export async function measureCost(
  lanes: readonly Lane[],
  jobs: number,
  at: (detail: string) => void,
): Promise<Map<Way, Cost>> {
  for (let n = 0; n < WARM_UP_JOBS; n += 1) {
    at(`warming up, ${n + 1} of ${WARM_UP_JOBS}`);
    await Promise.all(lanes.map((lane) => runOne(lane)));
  }
  at('statements of idle workers');
  const idle = await rates(lanes, () => sleep(IDLE_MS));
  const samples = new Map(lanes.map((lane) => [lane.way, [] as Sample[]]));
  const busy = await rates(lanes, async () => {
    for (let n = 0; n < jobs; n += 1) {
      at(`job ${n + 1} of ${jobs} of each way`);
      for (const lane of lanes) samples.get(lane.way)?.push(await runOne(lane));
    }
  });
  return new Map(
    lanes.map(({ way }) => {
      const of = samples.get(way) ?? [];
      const spans = of.map((sample) => sample.ms);
      const [before, during] = [idle.get(way), busy.get(way)];
      const counted = before !== undefined && during !== undefined;
      const cost: Cost = {
        jobs,
        activities: Math.max(...of.map((sample) => sample.activities)),
        history_events: Math.max(...of.map((sample) => sample.events)),
        statements: counted ? round((during.calls - (before.calls / before.ms) * during.ms) / jobs) : null,
        wall_ms: { median: round(median(spans)), least: round(Math.min(...spans)), most: round(Math.max(...spans)) },
      };
      return [way, cost];
    }),
  );
}

interface Sample {
  readonly ms: number;
  readonly activities: number;
  readonly events: number;
}

async function runOne(lane: Lane): Promise<Sample> {
  const job = await lane.begin(await lane.rooms.open());
  if (!(await lane.settle(job)))
    throw new Error(`a job of way “${lane.way}” did not settle although no worker crashed`);
  const { activities, events } = await readHistory(job.handle, null);
  return { ms: await lane.rooms.measureSpan(job.room, job.messageId), activities, events };
}

/** Statements of each way during `work`. Ways without counted statements are omitted. */
async function rates(
  lanes: readonly Lane[],
  work: () => Promise<unknown>,
): Promise<Map<Way, { calls: number; ms: number }>> {
  const before = await Promise.all(lanes.map((lane) => lane.database.countStatements()));
  const startedAt = Date.now();
  await work();
  const ms = Date.now() - startedAt;
  const rated = new Map<Way, { calls: number; ms: number }>();
  for (const [index, lane] of lanes.entries()) {
    const [from, to] = [before[index] ?? null, await lane.database.countStatements()];
    if (from !== null && to !== null) rated.set(lane.way, { calls: to - from, ms });
  }
  return rated;
}
