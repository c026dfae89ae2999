// A run's time limit, less the time in which it is parked. By the workflow's clock, which replays.

export interface ActiveTime {
  /** What is left of the limit, at least a millisecond: an activity needs a time-out above 0. */
  leftMs(): number;
  isOver(): boolean;
  /** From here on nothing counts, until `goOn`. */
  park(): void;
  goOn(): void;
}

/** Counts from now. No timer: the time-outs of the activities carry the limit. */
export function startActiveTime(limitMs: number, now: () => number = Date.now): ActiveTime {
  let endsAt = now() + limitMs;
  let parkedAt: number | null = null;
  const left = (): number => endsAt - (parkedAt ?? now());
  return {
    leftMs: () => Math.max(1, left()),
    isOver: () => left() <= 0,
    park() {
      parkedAt ??= now();
    },
    goOn() {
      if (parkedAt === null) return;
      endsAt += now() - parkedAt;
      parkedAt = null;
    },
  };
}
