// What a matrix has done so far, in a file, so that a second start goes on where the first was stopped. A fault is the
// smallest part of it. Results of other code or of other faults are not gone on from.

import { createHash } from 'node:crypto';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { mkdir, readFile, rename, writeFile } from 'node:fs/promises';
import { dirname, join, relative } from 'node:path';
import type { CrashFault } from '../../support/crash-faults';
import type { CellResult } from './cells';

export interface FaultResult {
  readonly fault: CrashFault;
  readonly seconds: number;
  readonly cells: readonly CellResult[];
}

export interface MatrixState {
  /** Of the code that was run. */
  readonly fingerprint: string;
  readonly faults: readonly CrashFault[];
  readonly startedAt: string;
  /** How often it was started. */
  starts: number;
  readonly done: FaultResult[];
}

/** The state to go on from, or null with the reason why there is none. */
export async function loadState(
  file: string,
  wanted: { fingerprint: string; faults: readonly CrashFault[] },
): Promise<{ state: MatrixState } | { state: null; why: string | null }> {
  if (!existsSync(file)) return { state: null, why: null };
  let state: MatrixState;
  try {
    state = JSON.parse(await readFile(file, 'utf8')) as MatrixState;
    if (!Array.isArray(state.done) || !Array.isArray(state.faults)) throw new Error('it is not a state');
  } catch (error) {
    return { state: null, why: `${file} can't be read (${(error as Error).message}): begun anew` };
  }
  if (state.fingerprint !== wanted.fingerprint) return { state: null, why: 'the code is another: begun anew' };
  if (String(state.faults) !== String(wanted.faults)) return { state: null, why: 'the faults are others: begun anew' };
  if (state.done.length === state.faults.length) return { state: null, why: 'the last one was finished: begun anew' };
  return { state };
}

export async function saveState(file: string, state: MatrixState): Promise<void> {
  await mkdir(dirname(file), { recursive: true });
  await writeFile(`${file}.new`, JSON.stringify(state));
  await rename(`${file}.new`, file);
}

/** Of all compiled code that a cell runs, and of the migrations. */
export function fingerprintOf(dist: string): string {
  const hash = createHash('sha256');
  const parts = ['workflows', 'activities', 'prisma', 'worker', 'test/support', 'test/crash/matrix'];
  const roots = [...parts.map((part) => join(dist, part)), join(dist, '..', 'prisma', 'migrations')];
  for (const root of roots) {
    const files = readdirSync(root, { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile() && /\.(js|sql)$/.test(entry.name))
      .map((entry) => join(entry.parentPath, entry.name));
    for (const file of files.sort()) hash.update(relative(dist, file)).update(readFileSync(file));
  }
  return hash.digest('hex').slice(0, 16);
}
