// The time from a wake to its reply, compared with a bare workflow of three activities. Runs of both alternate.

import { driveBare, driveRun, wakesToReplies, type BareRun } from './drive';
import type { BenchEnvironment } from './environment';
import { hopsOfBare, hopsOfOurs, type Hop } from './hops';
import type { Progress } from './progress';
import type { Sides } from './sides';
import { median, spreadOf, type Spread } from './statistics';

/** The number of runs whose histories are read for the hops. */
const HISTORIES_READ = 60;

export interface Latency {
  readonly ours: Spread;
  readonly bare: Spread;
  /** Median of `ours` divided by the median of `bare`. */
  readonly ratio: number;
  readonly hops: { readonly ours: readonly Hop[]; readonly bare: readonly Hop[] };
  readonly samples: { readonly ours: readonly number[]; readonly bare: readonly number[] };
}

export async function measureLatency(
  environment: BenchEnvironment,
  sides: Sides,
  { rounds, mostMs }: { readonly rounds: number; readonly mostMs: number },
  progress: Progress,
): Promise<Latency> {
  progress.begin(`wake to reply, ours and bare alternately, ${rounds} each`);
  const messages: string[] = [];
  const bare: BareRun[] = [];
  const startedAt = performance.now();
  for (let round = 0; round < rounds && performance.now() - startedAt < mostMs; round += 1) {
    messages.push(await driveRun(sides.ours));
    bare.push(await driveBare(environment, sides.bare));
    progress.at(`${round + 1} of ${rounds}`);
  }
  environment.model.reset();
  const ours = await wakesToReplies(sides.ours, messages);
  const bareMs = bare.map((run) => run.ms);
  progress.begin('reading histories');
  return {
    ours: spreadOf(ours),
    bare: spreadOf(bareMs),
    ratio: median(ours) / median(bareMs),
    hops: {
      ours: await hopsOfOurs(environment, sides.ours, messages.slice(-HISTORIES_READ)),
      bare: await hopsOfBare(environment, bare.slice(-HISTORIES_READ)),
    },
    samples: { ours, bare: bareMs },
  };
}
