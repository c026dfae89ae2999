// The folder of recorded histories (one folder for each version), and the current and released versions.

import { readFileSync } from 'node:fs';
import { join } from 'node:path';

const ROOT = join(__dirname, '..', '..');

export const HISTORIES = join(__dirname, 'histories');

/** The version of this code in package.json. */
export const VERSION = (JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as { version: string }).version;

/** Every released version in CHANGELOG.md: a heading such as `## [0.1.0] - 2026-11-30`. */
export const VERSIONS = [...readFileSync(join(ROOT, 'CHANGELOG.md'), 'utf8').matchAll(/^## \[(\d[^\]\s]*)\]/gm)].map(
  ([, version = '']) => version,
);
