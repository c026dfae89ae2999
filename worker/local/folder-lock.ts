// At most one living instance per data folder, also after kill -9 of the last one.
//
// A process that wants the folder first writes its own entry into `lock/`, then reads all other entries. If two processes do
// so at the same time, at least one sees the other, so both never hold the folder. An entry is stale when the process that it
// names is gone, identified by pid *and* start time. File names are never reused, so removing a stale entry can't remove a
// newer holder's, which is the race of a single lock file. It needs no native module, no port and no socket path (at most 108
// bytes).
import { randomUUID } from 'node:crypto';
import { mkdir, readFile, readlink, readdir, rm, stat, utimes, writeFile } from 'node:fs/promises';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

import { z } from 'zod';

import { identifyProcess, isStillRunning } from './process-identity';
import { EmbeddedStartError } from './start-error';

// A pid means nothing on another machine or in another container that shares the folder. Such a holder counts as alive while
// it touches its entry.
const TOUCH_MS = 2000;
const FOREIGN_STALE_MS = 10_000;
// Two processes that came at the same time both retreat; the random wait lets one of them in.
const ATTEMPTS = 4;
const LONGEST_BACKOFF_MS = 150;

const Entry = z.object({ pid: z.int().positive(), startMark: z.string().nullable(), machine: z.string() });
type Entry = z.infer<typeof Entry>;

interface Holder extends Entry {
  readonly seenMsAgo: number;
}

export interface FolderLock {
  /** Idempotent. */
  release(): Promise<void>;
}

/** Locks the folder for this process. Throws an error that names the holder if there is one; removes entries of dead ones. */
export async function takeFolderLock(folder: string): Promise<FolderLock> {
  const dir = join(folder, 'lock');
  await mkdir(dir, { recursive: true, mode: 0o700 });
  const me: Entry = { ...(await identifyProcess(process.pid)), machine: await describeMachine() };
  for (let attempt = 1; ; attempt += 1) {
    const mine = join(dir, `${randomUUID()}.json`);
    await writeFile(mine, JSON.stringify(me), { mode: 0o600, flag: 'wx' });
    const other = await findOtherHolder(dir, mine, me.machine);
    if (other === null) return holdEntry(mine);
    await rm(mine, { force: true });
    if (attempt === ATTEMPTS) throw new EmbeddedStartError(describeConflict(folder, other, me.machine));
    await sleep(Math.random() * LONGEST_BACKOFF_MS);
  }
}

function holdEntry(file: string): FolderLock {
  const timer = setInterval(() => {
    const now = new Date();
    // If the folder was removed, the servers in it fail and report that; the touch need not.
    utimes(file, now, now).catch(() => undefined);
  }, TOUCH_MS);
  timer.unref();
  return {
    async release() {
      clearInterval(timer);
      await rm(file, { force: true });
    },
  };
}

async function findOtherHolder(dir: string, mine: string, machine: string): Promise<Holder | null> {
  // Both times come from the folder's file system, so the clocks of two machines need not agree.
  const now = (await stat(mine)).mtimeMs;
  for (const name of await readdir(dir)) {
    const file = join(dir, name);
    if (file === mine) continue;
    const seenAt = await stat(file).then(
      (entry) => entry.mtimeMs,
      () => null,
    );
    if (seenAt === null) continue;
    const seenMsAgo = Math.max(0, now - seenAt);
    const entry = await readEntry(file);
    if (entry === null) {
      // The entry is being written, or a crash interrupted its writing.
      if (seenMsAgo < FOREIGN_STALE_MS) return { pid: 0, startMark: null, machine, seenMsAgo };
    } else if (entry.machine === machine ? await isStillRunning(entry) : seenMsAgo < FOREIGN_STALE_MS) {
      return { ...entry, seenMsAgo };
    }
    await rm(file, { force: true });
  }
  return null;
}

async function readEntry(file: string): Promise<Entry | null> {
  try {
    return Entry.parse(JSON.parse(await readFile(file, 'utf8')));
  } catch {
    return null;
  }
}

/** Identifies where a pid is valid: the host and, on Linux, the pid namespace (each container has one). */
async function describeMachine(): Promise<string> {
  const pids = await readlink('/proc/self/ns/pid').catch(() => '');
  return `${hostname()} ${pids}`.trim();
}

function describeConflict(folder: string, holder: Holder, machine: string): string {
  const who =
    holder.pid === 0 ? 'another process' : holder.pid === process.pid ? 'this process' : `process ${holder.pid}`;
  const where =
    holder.machine === machine ? '' : ` on ${holder.machine}, seen ${Math.round(holder.seenMsAgo / 1000)} s ago`;
  return `The data folder ${folder} is in use by ${who}${where}. Stop that instance first, or choose another data folder.`;
}
