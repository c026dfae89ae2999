// The folder of this project: the one with package.json, above the sources and the compiled code.

import { existsSync } from 'node:fs';
import { dirname, join } from 'node:path';

export const PROJECT_ROOT = findProjectRoot();
/** Keeps the downloaded Temporal CLI between runs. */
export const CLI_CACHE = join(PROJECT_ROOT, '.durable-room', 'cache');

function findProjectRoot(): string {
  for (let dir = __dirname; ; dir = dirname(dir)) {
    if (existsSync(join(dir, 'package.json'))) return dir;
    if (dirname(dir) === dir) throw new Error(`No package.json in or above ${__dirname}`);
  }
}
