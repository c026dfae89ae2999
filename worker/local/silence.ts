// Logs progress while something takes long: a start may include a download, and a silent terminal looks like a hang.

export type LogLine = (line: string) => void;

const SILENCE_MS = 1000;

/** Runs the task, and logs `what` every second until it ends. If `what` is a function, it is called each time. */
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
