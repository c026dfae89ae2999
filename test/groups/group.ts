// A group runs several test files of a folder in one module registry of jest, so that what they import is loaded once: jest
// loads every module again for each file it runs, which costs 1.5 s of CPU for the API and its database.
// Each file is also a test file that `npx jest <path>` runs alone.

import { readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';

const TESTS = join(__dirname, '..');

/** Declares the tests of every `groups`-th file of the folder, from the file number `group` on. */
export function runGroup(folder: string, group: number, groups: number): void {
  const path = join(TESTS, folder);
  const files = readdirSync(path)
    .filter((name) => name.endsWith('.test.ts'))
    // The size stands for the time that a file takes, so that the groups end at about the same time.
    .sort((a, b) => statSync(join(path, b)).size - statSync(join(path, a)).size);
  for (const name of files.filter((_, index) => index % groups === group - 1)) {
    describe(join(folder, name), () => {
      // oxlint-disable-next-line typescript/no-require-imports -- its hooks and tests belong to the describe block
      require(join(path, name));
    });
  }
}
