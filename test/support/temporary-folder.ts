// Where the tests and the servers that they start keep their files.

import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, statfsSync, writeFileSync } from 'node:fs';
import { freemem, tmpdir } from 'node:os';
import { join } from 'node:path';

/** Linux's file system in memory, for everyone. */
const IN_MEMORY = '/dev/shm';

/** Several times what a whole run of the tests keeps there at once. */
const ROOM_BYTES = 6 * 1024 ** 3;

/**
 * Makes a folder for one run of the tests: in memory where there is room for it, else where the system has such files.
 *
 * A test's database is five hundred small files. To make them takes 0.03 s in memory; on a disk it took 0.6 s where the
 * file system had long been in use, and was most of Postgres's time.
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
    // There is none, or it is not ours to write to.
  }
  return mkdtempSync(join(tmpdir(), name));
}

/** Containers often have it without. A server's own programs may be copied to its folder. */
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
