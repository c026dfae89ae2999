// Tells whoever waits what is being waited for. Starting may take a download, and a silent terminal reads as a hang.

export type LogLine = (line: string) => void;

const SILENCE_MS = 1000;

/** Runs the task, and logs what it is doing each time a second passes. `what` may be a function: it is asked anew each time. */
export async function withProgress<T>(log: LogLine, what: string | (() => string), task: () => Promise<T>): Promise<T> {
  const startedAt = Date.now();
  const timer = setInterval(() => {
    const seconds = Math.round((Date.now() - startedAt) / 1000);
    log(`${typeof what === 'string' ? what : what()} … (${seconds} s)`);
  }, SILENCE_MS);
  try {
    return await task();
  } finally {
    clearInterval(timer);
  }
}
