// What the bench is doing, a line at least every second and a half, so that silence always means trouble.

const EVERY_MS = 1_500;

export interface Progress {
  /** A new part begins. */
  begin(what: string): void;
  /** How far the part is; said with the next line. */
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
