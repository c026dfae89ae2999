// A server process that we start and own: its output, its end, and the record that distinguishes an orphan from a server in
// use.
import { spawn } from 'node:child_process';
import { readFile, rename, rm, writeFile } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';

import { z } from 'zod';

import { openLogFile } from './log-file';
import { identifyProcess, isStillRunning, readCommandLine, stopProcess } from './process-identity';
import type { StopStep } from './process-identity';
import type { LogLine } from './silence';
import { EmbeddedStartError } from './start-error';

export interface ServerCommand {
  /** The name in messages, such as PostgreSQL. */
  readonly name: string;
  readonly executable: string;
  readonly args: readonly string[];
  readonly workingFolder: string;
  /** Its whole environment: ours may hold secrets, and settings for another server (PGDATA, TEMPORAL_NAMESPACE). */
  readonly environment: Readonly<Record<string, string>>;
  readonly user: { readonly uid: number; readonly gid: number } | null;
  readonly logPath: string;
  readonly recordPath: string;
  /** In this order. The first signal is also sent if this process exits without having stopped the server. */
  readonly stopSteps: readonly [StopStep, ...StopStep[]];
}

export interface ServerProcess {
  readonly pid: number;
  /** How it ended, or null while it runs. */
  ending(): string | null;
  /** The output since its start. */
  output(): Promise<string>;
  /** The listener is called at most once, when the server ends without having been stopped. */
  onUnexpectedEnd(listener: (ending: string) => void): void;
  /** Resolves when the process is gone. Idempotent; throws when it can't be killed. */
  stop(): Promise<void>;
}

/** Starts the server and records its owner. A running server is not necessarily ready. */
export async function startServerProcess(command: ServerCommand): Promise<ServerProcess> {
  const logFile = await openLogFile(command.logPath);
  let ending: string | null = null;
  let stopping: Promise<void> | null = null;
  let unexpectedEnd: ((ending: string) => void) | null = null;
  const child = spawn(command.executable, command.args, {
    cwd: command.workingFolder,
    // Windows can't start a program without its own variables.
    ...(process.platform === 'win32' ? {} : { env: command.environment }),
    stdio: ['ignore', logFile.handle.fd, logFile.handle.fd],
    // In its own process group: Ctrl-C in a terminal reaches the whole foreground group, and would stop the databases before
    // the workers have finished their work.
    detached: true,
    ...command.user,
  });
  const ended = new Promise<void>((resolve) => {
    child.once('error', (error) => {
      ending ??= `could not be started: ${error.message}`;
      resolve();
    });
    child.once('exit', (code, signal) => {
      ending ??= signal === null ? `exit code ${code}` : `signal ${signal}`;
      resolve();
      if (stopping === null) unexpectedEnd?.(ending);
    });
  });
  const killAtExit = (): void => void child.kill(command.stopSteps[0].signal);
  process.once('exit', killAtExit);
  void ended.then(() => process.off('exit', killAtExit));
  await logFile.handle.close();

  const pid = child.pid;
  if (pid === undefined) {
    await ended;
    throw new EmbeddedStartError(`${command.name} ${ending ?? 'could not be started'} (${command.executable})`);
  }
  const stop = async (): Promise<void> => {
    for (const step of command.stopSteps) {
      if (ending !== null) break;
      child.kill(step.signal);
      await Promise.race([ended, sleep(step.waitMs, undefined, { ref: false })]);
    }
    if (ending === null) throw new Error(`${command.name} (process ${pid}) can't be killed`);
    await rm(command.recordPath, { force: true });
  };
  const server: ServerProcess = {
    pid,
    ending: () => ending,
    output: () => logFile.readNew(),
    onUnexpectedEnd: (listener) => {
      unexpectedEnd = listener;
    },
    stop: () => (stopping ??= stop()),
  };
  return await orStop(server, async () => {
    await writeRecord(command.recordPath, pid);
    return server;
  });
}

/** Runs the task, and stops the server when it throws. */
export async function orStop<T>(server: ServerProcess, task: () => Promise<T>): Promise<T> {
  try {
    return await task();
  } catch (error) {
    await server.stop();
    throw error;
  }
}

const Identity = z.object({ pid: z.int().positive(), startMark: z.string().nullable() });
const ServerRecord = z.object({ server: Identity, owner: Identity });
type ServerRecord = z.infer<typeof ServerRecord>;

/**
 * Stops the server that a killed instance left running, if there is one. Throws if its owner is alive.
 * `isOurs` checks the command line, because another process may have the recorded pid now.
 */
export async function stopOrphan(options: {
  readonly name: string;
  readonly folder: string;
  readonly recordPath: string;
  /** Further pids that may be the server's, from the server's own files. */
  readonly pids?: readonly number[];
  readonly isOurs: (commandLine: readonly string[]) => boolean;
  readonly stopSteps: readonly StopStep[];
  readonly log: LogLine;
}): Promise<void> {
  const record = await readRecord(options.recordPath);
  const candidates = (options.pids ?? []).map((pid) => ({ pid, startMark: null as string | null }));
  if (record !== null) candidates.unshift(record.server);
  for (const candidate of candidates) {
    if (!(await isStillRunning(candidate))) continue;
    const commandLine = await readCommandLine(candidate.pid);
    if (commandLine === null || !options.isOurs(commandLine)) continue;
    if (record !== null && record.server.pid === candidate.pid && (await isStillRunning(record.owner))) {
      throw new EmbeddedStartError(
        `${options.name} in ${options.folder} is in use by process ${record.owner.pid}. Stop that instance first, or choose another data folder.`,
      );
    }
    options.log(
      `${options.name} (process ${candidate.pid}) was left running by an instance that was killed; stopping it`,
    );
    if (!(await stopProcess(await identifyProcess(candidate.pid), options.stopSteps))) {
      throw new EmbeddedStartError(
        `${options.name} (process ${candidate.pid}) was left running in ${options.folder} and can't be stopped.`,
      );
    }
  }
  await rm(options.recordPath, { force: true });
}

async function writeRecord(path: string, pid: number): Promise<void> {
  const record: ServerRecord = { server: await identifyProcess(pid), owner: await identifyProcess(process.pid) };
  const draft = `${path}.${process.pid}`;
  await writeFile(draft, JSON.stringify(record), { mode: 0o600 });
  await rename(draft, path);
}

async function readRecord(path: string): Promise<ServerRecord | null> {
  try {
    return ServerRecord.parse(JSON.parse(await readFile(path, 'utf8')));
  } catch {
    return null;
  }
}
