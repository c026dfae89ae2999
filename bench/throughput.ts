// Runs per second with a fixed number of open runs: `ours` compared with `seven`, in alternating rounds.

import { setTimeout as sleep } from 'node:timers/promises';
import type { BenchEnvironment } from './environment';
import type { Progress } from './progress';
import type { RoomSide, Sides } from './sides';
import { median, round } from './statistics';
import { cpuPer, readCpu, type Cpu, type CpuReading } from './usage';

/** How often new messages restore the wanted number of open runs. */
const REFILL_MS = 20;
/** The time in which the first messages are posted; about the duration of a run at this load. */
const RAMP_MS = 2_000;
/** On a slow machine the measurement starts after this time, even if the first runs have not ended. */
const FILL_MS = 15_000;
const DRAIN_MS = 60_000;
const GIVE_UP_MS = 120_000;

export interface ThroughputOptions {
  readonly rounds: number;
  readonly inFlight: number;
  /** Measured runs per round. The first `inFlight` runs are not measured, because they run during the ramp. */
  readonly runs: number;
  /** On a slow machine a round ends after this time. */
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
  /** Median round of `ours` divided by the median round of `seven`. */
  readonly ratio: number;
}

export async function measureThroughput(
  environment: BenchEnvironment,
  sides: Sides,
  options: ThroughputOptions,
  progress: Progress,
): Promise<Throughput> {
  const measured = { ours: [] as ThroughputRound[], seven: [] as ThroughputRound[] };
  for (let n = 1; n <= options.rounds; n += 1) {
    // The order alternates, so that no side always has the warmer server.
    const order = n % 2 === 1 ? (['ours', 'seven'] as const) : (['seven', 'ours'] as const);
    for (const name of order) {
      progress.begin(`${options.inFlight} in flight, round ${n} of ${options.rounds}, ${name}`);
      measured[name].push(await measureRound(environment, sides[name], options, progress));
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
  environment: BenchEnvironment,
  side: RoomSide,
  options: ThroughputOptions,
  progress: Progress,
): Promise<ThroughputRound> {
  const startedAt = performance.now();
  let from: { ended: number; at: number; cpu: CpuReading } | undefined;
  let posted = 0;
  for (;;) {
    const open = await countOpen(side);
    const ended = posted - open;
    const spent = performance.now() - startedAt;
    if (from === undefined && (ended >= options.inFlight || spent > FILL_MS))
      from = { ended, at: spent, cpu: readCpu(environment, side) };
    if (from !== undefined && (ended >= from.ended + options.runs || spent > from.at + options.mostMs)) {
      const cpu = readCpu(environment, side);
      const runs = ended - from.ended;
      await drain(side, progress);
      environment.model.reset();
      await requireReplies(side);
      return {
        runs,
        runs_per_second: round(runs / ((cpu.at - from.cpu.at) / 1_000)),
        cpu_ms: cpuPer(Math.max(1, runs), from.cpu, cpu, null),
      };
    }
    if (spent > GIVE_UP_MS) throw new Error(`${ended} runs of ${side.name} in ${GIVE_UP_MS} ms`);
    // Post the first messages gradually; runs that all start at once would stay synchronized.
    const wanted = Math.min(options.inFlight, Math.ceil((spent / RAMP_MS) * options.inFlight));
    if (open < wanted) {
      await side.room.postBatch(wanted - open);
      posted += wanted - open;
    }
    progress.at(`${ended} runs`);
    await sleep(REFILL_MS);
  }
}

// Reads only a few rows through partial indexes, independent of the number of ended runs.
async function countOpen(side: RoomSide): Promise<number> {
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
    const open = await countOpen(side);
    if (open === 0) return;
    if (Date.now() > deadline) throw new Error(`${open} runs of ${side.name} did not end`);
    progress.at(`${open} still open`);
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
