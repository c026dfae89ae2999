// Test signals of a worker's loops: a test waits for the next pass of a loop instead of polling for its effect.

import type { LoopName, PassReport } from '../../worker/loop';

/** Far above the longest loop interval that tests set. */
const PASS_WITHIN_MS = 20_000;

export interface LoopPasses {
  /** Goes into the service as `onPass`. */
  readonly onPass: (loop: LoopName, pass: PassReport) => void;
  /**
   * Resolves with the first pass of the loop that begins after this call and for which `accepts` returns true.
   * @throws Error if there is none within 20 s
   */
  waitForPass(loop: LoopName, accepts?: (pass: PassReport) => boolean): Promise<PassReport>;
}

export function createLoopPasses(): LoopPasses {
  const waiting = new Set<(loop: LoopName, pass: PassReport) => void>();
  return {
    onPass: (loop, pass) => waiting.forEach((take) => take(loop, pass)),
    waitForPass: (wanted, accepts = () => true) =>
      new Promise((resolve, reject) => {
        // A pass that began earlier may have missed the latest action of the test.
        const since = Date.now();
        const end = (): void => {
          clearTimeout(timer);
          waiting.delete(take);
        };
        const take = (loop: LoopName, pass: PassReport): void => {
          if (loop !== wanted || pass.startedAt.getTime() < since || !accepts(pass)) return;
          end();
          resolve(pass);
        };
        const timer = setTimeout(() => {
          end();
          reject(new Error(`no such pass of the loop ${wanted} within ${PASS_WITHIN_MS / 1_000} s`));
        }, PASS_WITHIN_MS);
        waiting.add(take);
      }),
  };
}
