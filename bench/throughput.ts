// Runs a second with so many in flight: ours against seven activities, in interleaved rounds.

import { setTimeout as sleep } from 'node:timers/promises';
import type { Ground } from './ground';
import type { Progress } from './progress';
import type { RoomSide, Sides } from './sides';
import { median, round } from './statistics';
import { cpuPer, readCpu, type Cpu, type CpuReading } from './usage';

/** How often the number in flight is brought back to what it should be. */
const REFILL_MS = 20;
/** In which the first ones are posted: about what a run takes with so many in flight. */
const RAMP_MS = 2_000;
/** A machine so slow that the first ones have not ended by now is measured from here on. */
const FILL_MS = 15_000;
const DRAIN_MS = 60_000;
const GIVE_UP_MS = 120_000;

export interface ThroughputOptions {
  readonly rounds: number;
  readonly inFlight: number;
  /** Measured a round, after as many as are in flight, which ran while the others were still being posted. */
  readonly runs: number;
  /** A round on a slow machine ends here, with the runs that it has. */
  readonly mostMs: number;
}

export interface ThroughputRound {
  readonly runs_per_second: number;
  readonly runs: number;
  readonly cpu_ms: Cpu;
}

export interface Throughput {
  readonly in_flight: number;
  readonly ours: readonly ThroughputRound[];
  readonly seven: readonly ThroughputRound[];
  readonly runs_per_second: { readonly ours: number; readonly seven: number };
  /** Median round of ours by median round of seven. */
  readonly ratio: number;
}

export async function measureThroughput(
  ground: Ground,
  sides: Sides,
  options: ThroughputOptions,
  progress: Progress,
): Promise<Throughput> {
  const measured = { ours: [] as ThroughputRound[], seven: [] as ThroughputRound[] };
  for (let n = 1; n <= options.rounds; n += 1) {
    // The one that went second goes first next time: neither has the warmer server.
    const order = n % 2 === 1 ? (['ours', 'seven'] as const) : (['seven', 'ours'] as const);
    for (const name of order) {
      progress.begin(`${options.inFlight} in flight, round ${n} of ${options.rounds}, ${name}`);
      measured[name].push(await measureRound(ground, sides[name], options, progress));
    }
  }
  const rateOf = (name: 'ours' | 'seven'): number => median(measured[name].map((one) => one.runs_per_second));
  return {
    in_flight: options.inFlight,
    ...measured,
    runs_per_second: { ours: rateOf('ours'), seven: rateOf('seven') },
    ratio: rateOf('ours') / rateOf('seven'),
  };
}

async function measureRound(
  ground: Ground,
  side: RoomSide,
  options: ThroughputOptions,
  progress: Progress,
): Promise<ThroughputRound> {
  const startedAt = performance.now();
  let from: { ended: number; at: number; cpu: CpuReading } | undefined;
  let posted = 0;
  for (;;) {
    const underWay = await countUnderWay(side);
    const ended = posted - underWay;
    const spent = performance.now() - startedAt;
    if (from === undefined && (ended >= options.inFlight || spent > FILL_MS))
      from = { ended, at: spent, cpu: readCpu(ground, side) };
    if (from !== undefined && (ended >= from.ended + options.runs || spent > from.at + options.mostMs)) {
      const cpu = readCpu(ground, side);
      const runs = ended - from.ended;
      await drain(side, progress);
      ground.model.reset();
      await requireReplies(side);
      return {
        runs,
        runs_per_second: round(runs / ((cpu.at - from.cpu.at) / 1_000)),
        cpu_ms: cpuPer(Math.max(1, runs), from.cpu, cpu, null),
      };
    }
    if (spent > GIVE_UP_MS) throw new Error(`${ended} runs of ${side.name} in ${GIVE_UP_MS} ms`);
    // Let in a few at a time at first: a first wave that all arrives at once would go on moving in step.
    const wanted = Math.min(options.inFlight, Math.ceil((spent / RAMP_MS) * options.inFlight));
    if (underWay < wanted) {
      await side.room.postBatch(wanted - underWay);
      posted += wanted - underWay;
    }
    progress.at(`${ended} runs`);
    await sleep(REFILL_MS);
  }
}

// A handful of rows by partial indexes, however many runs there were.
async function countUnderWay(side: RoomSide): Promise<number> {
  const { rows } = await side.sql.query<{ n: number }>(
    `SELECT ((SELECT count(*) FROM wakes WHERE state = 'pending') +
             (SELECT count(*) FROM wakes WHERE state = 'delivered') +
             (SELECT count(*) FROM runs WHERE state = 'open'))::int AS n`,
  );
  return rows[0]?.n ?? 0;
}

async function drain(side: RoomSide, progress: Progress): Promise<void> {
  const deadline = Date.now() + DRAIN_MS;
  for (;;) {
    const underWay = await countUnderWay(side);
    if (underWay === 0) return;
    if (Date.now() > deadline) throw new Error(`${underWay} runs of ${side.name} did not end`);
    progress.at(`${underWay} still under way`);
    await sleep(50);
  }
}

async function requireReplies(side: RoomSide): Promise<void> {
  const { rows } = await side.sql.query<{ ending: string; n: number }>(
    `SELECT ending, count(*)::int AS n FROM runs WHERE ending <> 'replied' GROUP BY ending
     UNION ALL SELECT reason, count(*)::int FROM wakes WHERE state = 'suppressed' GROUP BY reason`,
  );
  const others = rows.map((row) => `${row.n} ${row.ending}`).join(', ');
  if (others !== '') throw new Error(`not every run of ${side.name} replied: ${others}`);
}
