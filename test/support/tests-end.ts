// What a test file cleans up after its last test, for support code that no test file closes itself.

type Cleanup = () => Promise<void>;

const cleanups: Cleanup[] = [];

/** Runs `cleanup` after the last test of the file. Its own root hooks may still run later. */
export function onTestsEnd(cleanup: Cleanup): void {
  cleanups.push(cleanup);
}

/** False in a program that uses the support code outside of jest, such as the crash matrix: it has no last test. */
export const isInJest = 'afterAll' in globalThis;

// jest loads this module first in each test file (`setupFilesAfterEnv`).
if (isInJest) {
  afterAll(async () => {
    for (const cleanup of cleanups.splice(0)) await cleanup();
  });
}
