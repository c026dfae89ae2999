// From a wake to its reply, against a bare workflow of three activities: one after the other, in turns.

import { driveBare, driveRun, wakesToReplies, type BareRun } from './drive';
import type { Ground } from './ground';
import { hopsOfBare, hopsOfOurs, type Hop } from './hops';
import type { Progress } from './progress';
import type { Sides } from './sides';
import { median, spreadOf, type Spread } from './statistics';

/** Of so many runs the histories are read afterwards, to tell where the time goes. */
const HISTORIES = 60;

export interface Latency {
  readonly ours: Spread;
  readonly bare: Spread;
  /** Median of ours by median of bare. */
  readonly ratio: number;
  readonly hops: { readonly ours: readonly Hop[]; readonly bare: readonly Hop[] };
  readonly samples: { readonly ours: readonly number[]; readonly bare: readonly number[] };
}

export async function measureLatency(
  ground: Ground,
  sides: Sides,
  { rounds, mostMs }: { readonly rounds: number; readonly mostMs: number },
  progress: Progress,
): Promise<Latency> {
  progress.begin(`wake to reply, ours and bare in turns, ${rounds} each`);
  const messages: string[] = [];
  const bare: BareRun[] = [];
  const startedAt = performance.now();
  for (let round = 0; round < rounds && performance.now() - startedAt < mostMs; round += 1) {
    messages.push(await driveRun(sides.ours));
    bare.push(await driveBare(ground, sides.bare));
    progress.at(`${round + 1} of ${rounds}`);
  }
  ground.model.reset();
  const ours = await wakesToReplies(sides.ours, messages);
  const bareMs = bare.map((run) => run.ms);
  progress.begin('reading histories');
  return {
    ours: spreadOf(ours),
    bare: spreadOf(bareMs),
    ratio: median(ours) / median(bareMs),
    hops: {
      ours: await hopsOfOurs(ground, sides.ours, messages.slice(-HISTORIES)),
      bare: await hopsOfBare(ground, bare.slice(-HISTORIES)),
    },
    samples: { ours, bare: bareMs },
  };
}
