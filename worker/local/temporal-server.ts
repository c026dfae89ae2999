// A local Temporal dev server with its data in one database file. It runs while this process runs. temporal-cli.ts finds its
// program. Temporal's dev server is not made for production; set TEMPORAL_ADDRESS there.
import { mkdir, realpath } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

import { Connection } from '@temporalio/client';

import { lastLines } from './log-file';
import { LOOPBACK, ensurePortFree, isPortTaken, pickFreePort } from './ports';
import type { StopStep } from './process-identity';
import { orStop, startServerProcess, stopOrphan } from './server-process';
import type { ServerProcess } from './server-process';
import { withProgress } from './silence';
import type { LogLine } from './silence';
import { EmbeddedStartError, reasonOf } from './start-error';

const NAME = 'The Temporal server';
const DEFAULT_NAMESPACE = 'default';
const SEARCH_ATTRIBUTES = ['RoomId', 'AgentId', 'CompanyId', 'RunEnding', 'RunState'];

// Temporal's usual ports, where the UI and `temporal workflow list` find the server; used if they are free.
const USUAL_PORT = 7233;
const USUAL_UI_PORT = 8233;

// The dev server has one history shard and by default reads each queue 20 times a second, so every step of a run would wait
// up to 50 ms.
const QUEUE_READS_PER_SECOND = 2000;
const QUEUES = ['transfer', 'timer', 'visibility'];

// Measured on two cores: 18 runs a second instead of 8, as fast as in memory. The data survives a SIGKILL. The exclusive lock
// also refuses a second server on the same file.
const SQLITE_PRAGMAS = ['journal_mode=WAL', 'synchronous=NORMAL', 'locking_mode=EXCLUSIVE'];

// The start takes half a second; the rest is for a slow disk with a large file.
const READY_WITHIN_MS = 60_000;
// For a version with other first lines of output: a server that did not get its ports has ended by then.
const BIND_FAILURE_ENDS_IT_WITHIN_MS = 5000;
const POLL_MS = 25;
const PORT_ATTEMPTS = 5;

// The server needs a user name and ends at once if neither the system nor USER has one (a container with a bare uid).
const ENVIRONMENT = { PATH: '/usr/bin:/bin', USER: 'durable-room' };

const STOP_STEPS = [
  { signal: 'SIGTERM', waitMs: 10_000 },
  { signal: 'SIGKILL', waitMs: 5000 },
] as const satisfies readonly StopStep[];

export interface EmbeddedTemporalOptions {
  /** The `temporal` program, as findTemporalCli returned it. */
  readonly cliPath: string;
  /** Holds the database file, the log and the record of the process, and nothing else. */
  readonly dir: string;
  /** Keeps no data, for tests. `dir` then holds only the log. */
  readonly inMemory?: boolean | undefined;
  readonly namespace?: string | undefined;
  /** Undefined: 7233 if it is free, else any free port. */
  readonly port?: number | undefined;
  /** Undefined: 8233 if it is free, else any free port. */
  readonly uiPort?: number | undefined;
  /** True: without the UI. */
  readonly headless?: boolean | undefined;
  /** Further arguments of `temporal server start-dev`. */
  readonly extraArgs?: readonly string[] | undefined;
  readonly log: LogLine;
  /** Called when the server ends without having been stopped. */
  readonly onUnexpectedEnd?: ((reason: string) => void) | undefined;
}

export interface EmbeddedTemporal {
  /** host:port */
  readonly address: string;
  readonly namespace: string;
  readonly uiUrl: string | null;
  readonly pid: number;
  /** Resolves when the process is gone. Idempotent. */
  stop(): Promise<void>;
}

/** Starts the Temporal server of that folder. @throws EmbeddedStartError; nothing is left running */
export async function startEmbeddedTemporal(options: EmbeddedTemporalOptions): Promise<EmbeddedTemporal> {
  return await withProgress(options.log, 'starting Temporal', () => start(options));
}

async function start(options: EmbeddedTemporalOptions): Promise<EmbeddedTemporal> {
  await mkdir(resolve(options.dir), { recursive: true, mode: 0o700 });
  const folder = await realpath(resolve(options.dir));
  const databaseFile = options.inMemory === true ? null : join(folder, 'temporal.db');
  const recordPath = join(folder, 'server.json');
  await stopOrphan({
    name: NAME,
    folder,
    recordPath,
    isOurs: (commandLine) =>
      commandLine.includes('start-dev') && (databaseFile === null || commandLine.join(' ').includes(databaseFile)),
    stopSteps: STOP_STEPS,
    log: options.log,
  });
  const namespace = options.namespace ?? DEFAULT_NAMESPACE;

  for (let attempt = 1; ; attempt += 1) {
    const { port, uiPort } = await choosePorts(options, attempt);
    const address = `${LOOPBACK}:${port}`;
    const server = await startServerProcess({
      name: NAME,
      executable: options.cliPath,
      args: [...argumentsOf(port, uiPort, namespace, databaseFile), ...(options.extraArgs ?? [])],
      workingFolder: folder,
      environment: { ...ENVIRONMENT, HOME: folder },
      user: null,
      logPath: join(folder, 'temporal.log'),
      recordPath,
      stopSteps: STOP_STEPS,
    });
    const failure = await orStop(server, () => waitUntilReady(server, { address, port, namespace }));
    if (failure === null) {
      server.onUnexpectedEnd((ending) => {
        const reason = `${NAME} (process ${server.pid}) ended by itself: ${ending}; its log is in ${folder}`;
        options.log(reason);
        options.onUnexpectedEnd?.(reason);
      });
      return {
        address,
        namespace,
        uiUrl: uiPort === null ? null : `http://${LOOPBACK}:${uiPort}`,
        pid: server.pid,
        stop: () => server.stop(),
      };
    }
    await server.stop();
    if (/address already in use/i.test(failure)) {
      if (options.port !== undefined) await ensurePortFree(options.port, PORT_PURPOSE);
      if (options.uiPort !== undefined) await ensurePortFree(options.uiPort, UI_PORT_PURPOSE);
      if (attempt < PORT_ATTEMPTS) continue;
    }
    if (databaseFile !== null && /database is locked|SQLITE_BUSY/.test(failure)) {
      throw new EmbeddedStartError(
        `The Temporal database ${databaseFile} is in use by another server. Stop that one first, or choose another data folder.`,
      );
    }
    throw new EmbeddedStartError(`${failure}\nThe whole log is in ${folder}.`);
  }
}

const PORT_PURPOSE = 'the port of the Temporal server';
const UI_PORT_PURPOSE = 'the port of the Temporal UI';

async function choosePorts(
  options: EmbeddedTemporalOptions,
  attempt: number,
): Promise<{ port: number; uiPort: number | null }> {
  const port = await choosePort(options.port, USUAL_PORT, PORT_PURPOSE, attempt);
  if (options.headless === true) return { port, uiPort: null };
  return { port, uiPort: await choosePort(options.uiPort, USUAL_UI_PORT, UI_PORT_PURPOSE, attempt) };
}

async function choosePort(asked: number | undefined, usual: number, purpose: string, attempt: number): Promise<number> {
  if (asked !== undefined) {
    // Checked first, so that the server that answers there later is the one that we started.
    await ensurePortFree(asked, purpose);
    return asked;
  }
  return attempt > 1 || (await isPortTaken(usual)) ? await pickFreePort() : usual;
}

function argumentsOf(port: number, uiPort: number | null, namespace: string, databaseFile: string | null): string[] {
  return [
    'server',
    'start-dev',
    `--ip=${LOOPBACK}`,
    `--port=${port}`,
    `--namespace=${namespace}`,
    ...(uiPort === null ? ['--headless'] : [`--ui-port=${uiPort}`]),
    ...SEARCH_ATTRIBUTES.map((name) => `--search-attribute=${name}=Keyword`),
    ...QUEUES.map((queue) => `--dynamic-config-value=history.${queue}ProcessorMaxPollRPS=${QUEUE_READS_PER_SECOND}`),
    ...(databaseFile === null ? [] : [`--db-filename=${databaseFile}`]),
    ...(databaseFile === null ? [] : SQLITE_PRAGMAS.map((pragma) => `--sqlite-pragma=${pragma}`)),
    '--log-level=error',
    '--log-format=json',
  ];
}

/**
 * Resolves with null when our own server answers for the namespace, else with the reason. The server prints its address only
 * after it has bound its ports, so no request is sent before.
 */
async function waitUntilReady(
  server: ServerProcess,
  wanted: { readonly address: string; readonly port: number; readonly namespace: string },
): Promise<string | null> {
  const startedAt = Date.now();
  const banner = new RegExp(`Server:\\s+\\S*:${wanted.port}\\s`);
  let lastAnswer = 'it did not print its address';
  while (Date.now() - startedAt < READY_WITHIN_MS) {
    const ending = server.ending();
    if (ending !== null) return `${NAME} did not start (${ending}). It wrote:\n${lastLines(await server.output())}`;
    if (banner.test(await server.output()) || Date.now() - startedAt > BIND_FAILURE_ENDS_IT_WITHIN_MS) {
      const answer = await askForNamespace(wanted.address, wanted.namespace);
      if (answer === null && server.ending() === null) return null;
      lastAnswer = answer ?? lastAnswer;
    }
    await sleep(POLL_MS);
  }
  return `${NAME} was not ready within ${READY_WITHIN_MS / 1000} s: ${lastAnswer}. It wrote:\n${lastLines(await server.output())}`;
}

/** Null if the frontend knows the namespace, else its error message. */
async function askForNamespace(address: string, namespace: string): Promise<string | null> {
  const deadline = Date.now() + 2000;
  let connection: Connection | null = null;
  try {
    connection = await Connection.connect({ address, connectTimeout: 2000 });
    const { workflowService } = connection;
    await connection.withDeadline(deadline, () => workflowService.describeNamespace({ namespace }));
    return null;
  } catch (error) {
    return reasonOf(error);
  } finally {
    await connection?.close();
  }
}
