// CPU time of all processes that take part in a run.

import { cpuMsOf, cpuMsOfPostgres } from './cpu';
import type { BenchEnvironment } from './environment';
import type { Side } from './sides';
import { round } from './statistics';

export interface Cpu {
  /** Milliseconds; null if the platform does not report them. */
  readonly temporal: number | null;
  readonly worker: number | null;
  readonly postgres: number | null;
}

export interface CpuReading extends Cpu {
  readonly at: number;
}

export function readCpu(environment: BenchEnvironment, side: Side): CpuReading {
  return {
    temporal: cpuMsOf(environment.temporal.pid),
    worker: cpuMsOf(side.worker.pid),
    postgres: cpuMsOfPostgres(environment.postgresPid),
    at: performance.now(),
  };
}

/** CPU time between two readings minus the idle usage in that time, divided by `count`. */
export function cpuPer(count: number, before: CpuReading, after: CpuReading, idle: Cpu | null): Cpu {
  const seconds = (after.at - before.at) / 1_000;
  const per = (part: keyof Cpu): number | null => {
    const [from, to] = [before[part], after[part]];
    if (from === null || to === null) return null;
    return round((to - from - (idle?.[part] ?? 0) * seconds) / count);
  };
  return { temporal: per('temporal'), worker: per('worker'), postgres: per('postgres') };
}

/** CPU milliseconds per second between two readings. */
export function cpuRate(before: CpuReading, after: CpuReading): Cpu {
  return cpuPer((after.at - before.at) / 1_000, before, after, null);
}
