// Prints the progress of the bench at least every 1.5 seconds, so that silence always means a fault.

const EVERY_MS = 1_500;

export interface Progress {
  /** Starts a new part. */
  begin(what: string): void;
  /** Sets the detail for the next line. */
  at(detail: string): void;
  stop(): void;
}

export function createProgress(say: (line: string) => void): Progress {
  const startedAt = Date.now();
  let what = '';
  let detail = '';
  let last = '';
  const line = (): void => {
    last = detail === '' ? what : `${what}: ${detail}`;
    say(`[${((Date.now() - startedAt) / 1_000).toFixed(0).padStart(3)} s] ${last}`);
  };
  const timer = setInterval(() => {
    if (what !== '') line();
  }, EVERY_MS);
  return {
    begin(next) {
      what = next;
      detail = '';
      line();
    },
    at(next) {
      detail = next;
    },
    stop: () => clearInterval(timer),
  };
}
