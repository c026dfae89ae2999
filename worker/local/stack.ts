// The whole stack on one machine: local PostgreSQL and Temporal servers if none are configured, the API and workers as child
// processes. `npm start`, `npm run dev`, the demo and the benchmarks use it.

import { fork, type ChildProcess } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { join } from 'node:path';
import { migrateDatabase } from '../../prisma/migrate';
import { readTemporalSettings } from '../temporal/settings';
import { openDataFolder, type DataFolder } from './data-folder';
import { announceServices, profileFileOf } from './running';
import { startServices, type Services, type ServicesOptions } from './services';
import { namesTemporal, withoutTemporal } from '../cli/tool-environment';

/** How long a process may take until it is ready, and until it has stopped. */
const READY_MS = 30_000;
const STOP_MS = 20_000;

const API_MAIN = join(__dirname, '..', '..', 'api', 'main.js');
const WORKER_MAIN = join(__dirname, '..', 'main.js');

export interface StackOptions {
  /** Holds the data of the local servers and their secrets. */
  readonly dataFolder: string;
  /** Passed on to the processes. If it sets DATABASE_URL or TEMPORAL_ADDRESS, that server is used and no local one started. */
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly workers?: number;
  readonly services?: Partial<Omit<ServicesOptions, 'dataFolder' | 'log'>>;
  readonly log: (line: string) => void;
  /** Called when a process ends that the stack did not stop. */
  readonly onExit?: (name: string, child: ChildProcess, code: number | null, signal: string | null) => void;
}

export interface Stack {
  readonly services: Services;
  readonly apiUrl: string;
  /** The operator key if this start created it; it can't be shown again. Otherwise null. */
  readonly operatorKey: string | null;
  readonly workers: readonly ChildProcess[];
  /** Starts one more worker. `main` names another program that behaves like a worker. */
  startWorker(env?: Record<string, string>, main?: string): Promise<ChildProcess>;
  /** Restarts the API on its port. */
  restartApi(): Promise<void>;
  /** Restarts the API on its port, and the workers. Rejects if one of them does not get ready. */
  restartProcesses(): Promise<void>;
  /** Stops what was started, in reverse order. Idempotent. */
  stop(): Promise<void>;
}

/** Starts everything and resolves when the API answers and the workers poll. If a part fails, stops what it started. */
export async function startStack(options: StackOptions): Promise<Stack> {
  const undo: (() => Promise<void>)[] = [];
  let stopped: Promise<void> | undefined;
  const stop = (): Promise<void> =>
    (stopped ??= (async () => {
      for (const step of undo.reverse()) await step();
    })());
  try {
    return await start(options, undo, stop, () => stopped !== undefined);
  } catch (error) {
    await stop();
    throw error;
  }
}

async function start(
  options: StackOptions,
  undo: (() => Promise<void>)[],
  stop: () => Promise<void>,
  isStopping: () => boolean,
): Promise<Stack> {
  const temporal = namesTemporal(options.env) ? readTemporalSettings(options.env) : null;
  const folder = await openDataFolder(options.dataFolder);
  undo.push(() => folder.release());
  const services = await startServices({
    databaseUrl: options.env['DATABASE_URL'],
    temporalAddress: temporal?.address ?? undefined,
    temporalNamespace: temporal?.namespace ?? options.env['TEMPORAL_NAMESPACE'],
    temporalCliPath: options.env['TEMPORAL_CLI_PATH'],
    ...options.services,
    dataFolder: folder,
    log: options.log,
  });
  undo.push(() => services.stop());
  const own = {
    databaseUrl: options.env['DATABASE_URL'] ? null : services.databaseUrl,
    temporal: temporal === null ? services.temporal : null,
  };
  undo.push(await announceServices(folder, own));
  const { applied } = await migrateDatabase(services.databaseUrl);
  if (applied.length > 0) options.log(`database: ${applied.length} migration(s) applied`);
  const env = await environmentOf(options, services, folder, temporal === null);

  const children = new Set<ChildProcess>();
  const watch = (name: string, child: ChildProcess): void => {
    children.add(child);
    child.once('exit', (code, signal) => {
      children.delete(child);
      if (!expected.delete(child) && !isStopping()) options.onExit?.(name, child, code, signal);
    });
  };
  /** Processes that the stack itself ends. */
  const expected = new Set<ChildProcess>();
  undo.push(async () => {
    await Promise.all([...children].map((child) => endProcess(child)));
  });

  let api = await launch(API_MAIN, env);
  watch('api', api.child);
  const apiUrl = `http://127.0.0.1:${api.ready.port}`;
  options.log(`API is up on ${apiUrl}`);
  const startApi = async (): Promise<void> => {
    api = await launch(API_MAIN, { ...env, API_PORT: String(api.ready.port) });
    watch('api', api.child);
  };
  const workers: ChildProcess[] = [];
  const startWorker: Stack['startWorker'] = async (extra = {}, main = WORKER_MAIN) => {
    // Only one process can have the configured port.
    const port = workers.length === 0 ? (env['WORKER_PORT'] ?? '0') : '0';
    const { child } = await launch(main, { ...env, WORKER_PORT: port, ...extra });
    watch('worker', child);
    workers.push(child);
    return child;
  };
  const startWorkers = async (): Promise<void> => {
    await Promise.all(Array.from({ length: options.workers ?? 1 }, () => startWorker()));
  };
  await startWorkers();
  options.log(`${workers.length} worker process(es) up`);
  return {
    services,
    apiUrl,
    operatorKey: api.ready.operatorKey ?? null,
    workers,
    startWorker,
    restartApi: async () => {
      expected.add(api.child);
      await endProcess(api.child);
      await startApi();
    },
    restartProcesses: async () => {
      const running = [...children];
      for (const child of running) expected.add(child);
      await Promise.all(running.map((child) => endProcess(child)));
      workers.length = 0;
      await startApi();
      await startWorkers();
    },
    stop,
  };
}

async function environmentOf(
  options: StackOptions,
  services: Services,
  folder: DataFolder,
  ownTemporal: boolean,
): Promise<Record<string, string>> {
  const given = Object.fromEntries(
    Object.entries(options.env).filter((pair): pair is [string, string] => pair[1] !== undefined && pair[1] !== ''),
  );
  const masterKeys =
    given['MASTER_KEYS'] ?? (await folder.secret('master-keys', () => `k1:${randomBytes(32).toString('base64')}`));
  return {
    // An API key or certificate for another server would make the connection to the local one fail.
    ...(ownTemporal ? { ...withoutTemporal(given), TEMPORAL_CONFIG_FILE: profileFileOf(folder.path) } : given),
    DATABASE_URL: services.databaseUrl,
    TEMPORAL_ADDRESS: services.temporal.address,
    TEMPORAL_NAMESPACE: services.temporal.namespace,
    ...(services.temporal.uiUrl !== null && { TEMPORAL_UI_URL: services.temporal.uiUrl }),
    MASTER_KEYS: masterKeys,
  };
}

interface Ready {
  readonly port: number;
  readonly operatorKey?: string | null;
}

async function launch(main: string, env: Record<string, string>): Promise<{ child: ChildProcess; ready: Ready }> {
  const child = fork(main, [], { env, stdio: ['ignore', 'inherit', 'inherit', 'ipc'] });
  const ready = await new Promise<Ready>((resolve, reject) => {
    const timer = setTimeout(() => reject(new Error(`${main} did not get ready in ${READY_MS / 1_000} s`)), READY_MS);
    child.once('exit', (code, signal) => {
      clearTimeout(timer);
      reject(new Error(`${main} ended before it was ready (${signal ?? code}); its output is above`));
    });
    child.on('message', (message) => {
      if (!isReady(message)) return;
      clearTimeout(timer);
      resolve(message);
    });
  }).catch(async (error: unknown) => {
    await endProcess(child);
    throw error;
  });
  return { child, ready };
}

function isReady(message: unknown): message is Ready & { type: 'ready' } {
  return typeof message === 'object' && message !== null && 'type' in message && message.type === 'ready';
}

/** Sends SIGTERM, and SIGKILL if the process has not stopped in time. */
export async function endProcess(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  await new Promise<void>((resolve) => {
    const timer = setTimeout(() => child.kill('SIGKILL'), STOP_MS);
    child.once('exit', () => {
      clearTimeout(timer);
      resolve();
    });
    child.kill('SIGTERM');
  });
}
