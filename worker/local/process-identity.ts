// Identifies a process beyond its pid, which the system gives to another process after a kill or a reboot.
import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';

import { systemErrorCode } from './start-error';

const run = promisify(execFile);

/** Distinguishes a process from any later one with the same pid. `startMark` is null if the system provides none. */
export interface ProcessIdentity {
  readonly pid: number;
  readonly startMark: string | null;
}

/** The identity of a living process. Never throws. */
export async function identifyProcess(pid: number): Promise<ProcessIdentity> {
  return { pid, startMark: await readStartMark(pid) };
}

/** Whether exactly that process still runs. Without a start mark, any process with its pid counts. */
export async function isStillRunning(identity: ProcessIdentity): Promise<boolean> {
  if (!isPidAlive(identity.pid)) return false;
  const startMark = await readStartMark(identity.pid);
  if (startMark === null) return process.platform !== 'linux' && isPidAlive(identity.pid);
  return identity.startMark === null || identity.startMark === startMark;
}

export function isPidAlive(pid: number): boolean {
  // 0 and negative numbers address process groups, including ours.
  if (!Number.isSafeInteger(pid) || pid <= 0) return false;
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return systemErrorCode(error) === 'EPERM';
  }
}

/** The arguments of a process, or null if it is gone or they can't be read. Without /proc they are split at spaces. */
export async function readCommandLine(pid: number): Promise<readonly string[] | null> {
  if (process.platform === 'linux') {
    const raw = await readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '');
    return raw === '' ? null : raw.replace(/\0$/, '').split('\0');
  }
  const line = await askPs(pid, 'command');
  return line === null ? null : line.split(' ');
}

export interface StopStep {
  readonly signal: NodeJS.Signals;
  readonly waitMs: number;
}

/** Sends the signals in order until the process is gone. Returns false if it is still running after the last one. */
export async function stopProcess(identity: ProcessIdentity, steps: readonly StopStep[]): Promise<boolean> {
  for (const step of steps) {
    if (!(await isStillRunning(identity))) return true;
    try {
      process.kill(identity.pid, step.signal);
    } catch (error) {
      if (systemErrorCode(error) !== 'ESRCH') throw error;
    }
    const until = Date.now() + step.waitMs;
    while (Date.now() < until) {
      if (!(await isStillRunning(identity))) return true;
      await sleep(20);
    }
  }
  return !(await isStillRunning(identity));
}

async function readStartMark(pid: number): Promise<string | null> {
  if (process.platform !== 'linux') return await askPs(pid, 'lstart');
  try {
    const stat = await readFile(`/proc/${pid}/stat`, 'utf8');
    // The program's name, in parentheses, may hold spaces, so fields are counted after it.
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    const state = fields[0];
    const startTicks = fields[19];
    // A zombie no longer runs; it waits until its parent reads its exit code.
    if (startTicks === undefined || state === 'Z' || state === 'X') return null;
    // Ticks count from the boot, so the mark includes the boot.
    const bootId = await readFile('/proc/sys/kernel/random/boot_id', 'utf8');
    return `${bootId.trim()}/${startTicks}`;
  } catch {
    return null;
  }
}

async function askPs(pid: number, column: string): Promise<string | null> {
  try {
    const { stdout } = await run('ps', ['-ww', '-o', `${column}=`, '-p', String(pid)]);
    return stdout.trim() === '' ? null : stdout.trim();
  } catch {
    return null;
  }
}
