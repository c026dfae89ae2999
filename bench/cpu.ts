// CPU time of processes, from Linux' /proc. Null on other platforms.

import { readFileSync, readdirSync } from 'node:fs';

/** A clock tick of /proc in milliseconds. USER_HZ is 100 on every platform that Node runs on. */
const TICK_MS = 10;

interface Stat {
  readonly parent: number;
  readonly ownMs: number;
  /** The CPU time of children that ended and were waited for. */
  readonly endedChildrenMs: number;
}

/** CPU milliseconds of a process and all its threads since its start. Null if they cannot be read. */
export function cpuMsOf(pid: number): number | null {
  return readStat(pid)?.ownMs ?? null;
}

/** CPU milliseconds of a PostgreSQL server since its start: the postmaster and all current and ended backends. */
export function cpuMsOfPostgres(postmaster: number): number | null {
  const server = readStat(postmaster);
  if (server === null) return null;
  let total = server.ownMs + server.endedChildrenMs;
  for (const name of readdirSync('/proc')) {
    if (!/^\d+$/.test(name)) continue;
    const stat = readStat(Number(name));
    if (stat?.parent === postmaster) total += stat.ownMs;
  }
  return total;
}

function readStat(pid: number): Stat | null {
  if (process.platform !== 'linux') return null;
  let text: string;
  try {
    text = readFileSync(`/proc/${pid}/stat`, 'utf8');
  } catch {
    return null;
  }
  // The second field is the program's name in parentheses and may contain any character, so fields are counted after it.
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ');
  const ticks = (index: number): number => Number(fields[index] ?? 0) * TICK_MS;
  return { parent: Number(fields[1]), ownMs: ticks(11) + ticks(12), endedChildrenMs: ticks(13) + ticks(14) };
}
