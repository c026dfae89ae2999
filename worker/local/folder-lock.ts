// One living instance per data folder, also after kill -9 of the last one.
//
// Everyone who wants the folder first writes an entry of their own into `lock/`, then reads all others. Of two that
// come at once, at least one sees the other, so never do both hold it. An entry is stale when the process it names is
// gone, told by pid *and* start time; its name is never used again, so removing it can't hit a newer holder: the race
// that a single lock file has. No native module, no port, no socket path of at most 108 bytes is needed.
import { randomUUID } from 'node:crypto';
import { mkdir, readFile, readlink, readdir, rm, stat, utimes, writeFile } from 'node:fs/promises';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

import { z } from 'zod';

import { identifyProcess, isStillRunning } from './process-identity';
import { EmbeddedStartError } from './start-error';

// A pid means nothing on another machine or in another container that shares the folder. Its holder is believed to
// live for as long as it touches its entry.
const TOUCH_MS = 2000;
const FOREIGN_STALE_MS = 10_000;
// Two that came at once both step back; a random wait lets one of them in.
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

/** Takes the folder for this process, or throws naming the process that has it. Entries of dead ones are removed. */
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
    // A folder removed under us is noticed by the servers in it; the touch has nobody to tell.
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
  // Both times come from the folder's own file system, so that two machines' clocks need not agree.
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
      // Being written at this moment, or cut short by a crash.
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

/** Where this process's pids are valid: the host and, on Linux, the pid namespace (a container has its own). */
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
