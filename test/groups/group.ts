// A group runs several test files of a folder in one module registry of jest, so that their imports are loaded once. Without
// groups, jest loads every module again for each file, which costs 1.5 s of CPU for the API and its database.
// `npx jest <path>` also runs each test file alone.

import { readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';

const TESTS = join(__dirname, '..');

/** Declares the tests of every `groups`-th file of the folder, starting at file number `group`. */
export function runGroup(folder: string, group: number, groups: number): void {
  const path = join(TESTS, folder);
  const files = readdirSync(path)
    .filter((name) => name.endsWith('.test.ts'))
    // The size of a file estimates its duration, so that all groups take about the same time.
    .sort((a, b) => statSync(join(path, b)).size - statSync(join(path, a)).size);
  for (const name of files.filter((_, index) => index % groups === group - 1)) {
    describe(join(folder, name), () => {
      // oxlint-disable-next-line typescript/no-require-imports -- its hooks and tests belong to the describe block
      require(join(path, name));
    });
  }
}
