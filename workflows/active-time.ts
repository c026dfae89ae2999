// The time limit of a run, which does not count parked time. It uses the workflow's clock, which replays.

export interface ActiveTime {
  /** The rest of the limit, at least 1 ms: an activity needs a timeout above 0. */
  leftMs(): number;
  isOver(): boolean;
  /** Stops the count until `resume`. */
  park(): void;
  resume(): void;
}

/** Counts from now. There is no timer: the timeouts of the activities enforce the limit. */
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
    resume() {
      if (parkedAt === null) return;
      endsAt += now() - parkedAt;
      parkedAt = null;
    },
  };
}
