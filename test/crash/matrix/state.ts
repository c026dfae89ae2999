// The finished faults of a matrix, in a file, so that a second start resumes after the last finished fault. A state of other
// code or of other faults is not resumed.

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
  /** The fingerprint of the code that ran. */
  readonly fingerprint: string;
  readonly faults: readonly CrashFault[];
  readonly startedAt: string;
  /** The number of starts of this matrix. */
  starts: number;
  readonly done: FaultResult[];
}

/** The state to resume, or null. With null, the reason why a file is not used, or null if there is no file. */
export async function loadState(
  file: string,
  wanted: { fingerprint: string; faults: readonly CrashFault[] },
): Promise<{ state: MatrixState } | { state: null; why: string | null }> {
  if (!existsSync(file)) return { state: null, why: null };
  let state: MatrixState;
  try {
    state = JSON.parse(await readFile(file, 'utf8')) as MatrixState;
    if (!Array.isArray(state.done) || !Array.isArray(state.faults)) throw new Error('it is not a state of the matrix');
  } catch (error) {
    return { state: null, why: `${file} can't be read (${(error as Error).message}): starting again` };
  }
  if (state.fingerprint !== wanted.fingerprint) return { state: null, why: 'the code has changed: starting again' };
  if (String(state.faults) !== String(wanted.faults))
    return { state: null, why: 'the faults are different: starting again' };
  if (state.done.length === state.faults.length)
    return { state: null, why: 'the last matrix is complete: starting again' };
  return { state };
}

export async function saveState(file: string, state: MatrixState): Promise<void> {
  await mkdir(dirname(file), { recursive: true });
  await writeFile(`${file}.new`, JSON.stringify(state));
  await rename(`${file}.new`, file);
}

/** The hash of all compiled code that a cell runs, and of the migrations. */
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
