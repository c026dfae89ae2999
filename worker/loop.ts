// A loop is `runOnce()` plus this: run, wait for the interval or a nudge, run again. Starting and stopping are idempotent.

export interface Loop {
  start(): void;
  /** Runs again as soon as the present pass is over. */
  nudge(): void;
  /** Resolves when the present pass is over and no other will begin. */
  stop(): Promise<void>;
  /** When the last pass that did not fail ended; null before the first. */
  readonly lastSuccessAt: Date | null;
}

/** `runOnce` returns true when there may be more to do at once. A pass that throws is reported, and the loop goes on. */
export function createLoop(options: {
  runOnce: () => Promise<boolean>;
  intervalMs: number;
  onError: (error: unknown) => void;
}): Loop {
  let running: Promise<void> | null = null;
  let stopped = false;
  let nudged = false;
  let wakeUp: (() => void) | null = null;
  let lastSuccessAt: Date | null = null;

  const wait = (): Promise<void> =>
    new Promise((resolve) => {
      const done = (): void => {
        clearTimeout(timer);
        wakeUp = null;
        resolve();
      };
      const timer = setTimeout(done, options.intervalMs);
      wakeUp = done;
    });

  const run = async (): Promise<void> => {
    while (!stopped) {
      nudged = false;
      let more = false;
      try {
        more = await options.runOnce();
        lastSuccessAt = new Date();
      } catch (error) {
        options.onError(error);
      }
      if (!more && !nudged && !stopped) await wait();
    }
  };

  return {
    start() {
      running ??= run();
    },
    nudge() {
      nudged = true;
      wakeUp?.();
    },
    async stop() {
      stopped = true;
      wakeUp?.();
      await running;
    },
    get lastSuccessAt() {
      return lastSuccessAt;
    },
  };
}
