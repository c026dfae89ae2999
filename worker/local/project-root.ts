// The folder of this project: where package.json is, beside the sources and beside the compiled code in dist.

import { existsSync } from 'node:fs';
import { dirname, join } from 'node:path';

export const PROJECT_ROOT = findProjectRoot();
/** Kept between runs, so that the Temporal CLI is downloaded once. */
export const CLI_CACHE = join(PROJECT_ROOT, '.durable-room', 'cache');

function findProjectRoot(): string {
  for (let dir = __dirname; ; dir = dirname(dir)) {
    if (existsSync(join(dir, 'package.json'))) return dir;
    if (dirname(dir) === dir) throw new Error(`No package.json in or above ${__dirname}`);
  }
}
