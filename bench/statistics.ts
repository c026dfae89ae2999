// Statistics of samples.

export interface Spread {
  readonly samples: number;
  readonly p50: number;
  readonly p99: number;
  readonly mean: number;
  readonly least: number;
  readonly most: number;
}

/** The value that this share of the samples does not exceed (nearest rank). NaN without samples. */
export function percentile(samples: readonly number[], share: number): number {
  const sorted = [...samples].sort((a, b) => a - b);
  return sorted[Math.max(0, Math.ceil(share * sorted.length) - 1)] ?? Number.NaN;
}

export function median(samples: readonly number[]): number {
  return percentile(samples, 0.5);
}

export function sum(samples: readonly number[]): number {
  return samples.reduce((total, sample) => total + sample, 0);
}

export function spreadOf(samples: readonly number[]): Spread {
  return {
    samples: samples.length,
    p50: round(percentile(samples, 0.5)),
    p99: round(percentile(samples, 0.99)),
    mean: round(sum(samples) / samples.length),
    least: round(Math.min(...samples)),
    most: round(Math.max(...samples)),
  };
}

/** Rounds to hundredths, which is finer than the clocks' resolution. */
export function round(value: number): number {
  return Math.round(value * 100) / 100;
}
