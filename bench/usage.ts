// CPU of everything that a run costs, read together.

import { cpuMsOf, cpuMsOfPostgres } from './cpu';
import type { Ground } from './ground';
import type { Side } from './sides';
import { round } from './statistics';

export interface Cpu {
  /** Milliseconds; null where the platform can't say. */
  readonly temporal: number | null;
  readonly worker: number | null;
  readonly postgres: number | null;
}

export interface CpuReading extends Cpu {
  readonly at: number;
}

export function readCpu(ground: Ground, side: Side): CpuReading {
  return {
    temporal: cpuMsOf(ground.temporal.pid),
    worker: cpuMsOf(side.worker.pid),
    postgres: cpuMsOfPostgres(ground.postgresPid),
    at: performance.now(),
  };
}

/** What was used between two readings, less what an idle machine uses in that time, per one of `count`. */
export function cpuPer(count: number, before: CpuReading, after: CpuReading, idle: Cpu | null): Cpu {
  const seconds = (after.at - before.at) / 1_000;
  const per = (part: keyof Cpu): number | null => {
    const [from, to] = [before[part], after[part]];
    if (from === null || to === null) return null;
    return round((to - from - (idle?.[part] ?? 0) * seconds) / count);
  };
  return { temporal: per('temporal'), worker: per('worker'), postgres: per('postgres') };
}

/** CPU milliseconds a second between two readings. */
export function cpuRate(before: CpuReading, after: CpuReading): Cpu {
  return cpuPer((after.at - before.at) / 1_000, before, after, null);
}
