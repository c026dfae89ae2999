// Creates the folder for the files of the tests and their servers.

import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, statfsSync, writeFileSync } from 'node:fs';
import { freemem, tmpdir } from 'node:os';
import { join } from 'node:path';

/** The shared in-memory file system of Linux. */
const IN_MEMORY = '/dev/shm';

/** Several times the space that a whole run of the tests needs at one time. */
const ROOM_BYTES = 6 * 1024 ** 3;

/**
 * Creates a folder for one run of the tests: in memory if there is enough space, else in the temporary folder of the system.
 *
 * The database of a test has five hundred small files. Creating them took 0.03 s in memory and 0.6 s on a disk with an old
 * file system, which was most of the time of Postgres.
 */
export function makeTemporaryFolder(): string {
  const name = 'durable-room-tests-';
  try {
    const { bavail, bsize } = statfsSync(IN_MEMORY);
    if (Math.min(bavail * bsize, freemem()) < ROOM_BYTES) return mkdtempSync(join(tmpdir(), name));
    const folder = mkdtempSync(join(IN_MEMORY, name));
    if (mayRunPrograms(folder)) return folder;
    rmSync(folder, { recursive: true });
  } catch {
    // The folder is missing or not writable.
  }
  return mkdtempSync(join(tmpdir(), name));
}

/** Containers often forbid programs there. The programs of a server may be copied to its folder. */
function mayRunPrograms(folder: string): boolean {
  const program = join(folder, 'program');
  writeFileSync(program, '#!/bin/sh\n', { mode: 0o700 });
  try {
    execFileSync(program, { stdio: 'ignore' });
    return true;
  } catch {
    return false;
  } finally {
    rmSync(program);
  }
}
