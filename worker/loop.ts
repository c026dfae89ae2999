// A loop: `runOnce()` plus a thin timer. It runs a pass, waits for the interval or for `trigger()`, and runs the next pass.

/** All loops of a worker process. loops.ts makes one of each. */
export type LoopName =
  'dispatcher' | 'signals' | 'reconciler' | 'parked_sweep' | 'files' | 'key_tests' | 'stored_answers';

export interface Loop {
  /** Begins the first pass. Idempotent. */
  start(): void;
  /** Begins the next pass without waiting for the interval; during a pass, as soon as that pass is over. */
  trigger(): void;
  /** Resolves when the current pass is over and no other will begin. Idempotent. */
  stop(): Promise<void>;
  /** When the last successful pass ended; null before the first. */
  readonly lastSuccessAt: Date | null;
}

/** One finished pass, for the test signal. */
export type PassReport = { readonly startedAt: Date } & (
  { readonly ok: true; readonly result: unknown } | { readonly ok: false; readonly error: unknown }
);

/** A test signal: called after every pass. Production passes none. */
export type OnPass = (pass: PassReport) => void;

export interface LoopOptions<Result> {
  /** One pass. A pass that throws is reported to `onError`, and the loop continues. */
  readonly runOnce: () => Promise<Result>;
  /** Whether the next pass begins at once. Without it: if the pass returned true. */
  readonly hasMore?: (result: Result) => boolean;
  readonly intervalMs: number;
  readonly onError: (error: unknown) => void;
  readonly onPass?: OnPass | undefined;
}

export function createLoop<Result>(options: LoopOptions<Result>): Loop {
  const hasMore = options.hasMore ?? ((result: Result) => result === true);
  let running: Promise<void> | null = null;
  let stopped = false;
  let triggered = false;
  let cancelWait: (() => void) | null = null;
  let lastSuccessAt: Date | null = null;

  const wait = (): Promise<void> =>
    new Promise((resolve) => {
      const done = (): void => {
        clearTimeout(timer);
        cancelWait = null;
        resolve();
      };
      const timer = setTimeout(done, options.intervalMs);
      cancelWait = done;
    });

  const runPass = async (): Promise<boolean> => {
    const startedAt = new Date();
    try {
      const result = await options.runOnce();
      lastSuccessAt = new Date();
      options.onPass?.({ startedAt, ok: true, result });
      return hasMore(result);
    } catch (error) {
      options.onError(error);
      options.onPass?.({ startedAt, ok: false, error });
      return false;
    }
  };

  const run = async (): Promise<void> => {
    while (!stopped) {
      triggered = false;
      const more = await runPass();
      if (!more && !triggered && !stopped) await wait();
    }
  };

  return {
    start() {
      running ??= run();
    },
    trigger() {
      triggered = true;
      cancelWait?.();
    },
    async stop() {
      stopped = true;
      cancelWait?.();
      await running;
    },
    get lastSuccessAt() {
      return lastSuccessAt;
    },
  };
}
