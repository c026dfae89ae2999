// A local PostgreSQL server with its data in a folder. It runs while this process runs. Not for servers that others run.
import { randomBytes } from 'node:crypto';
import { rm } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

import { Client } from 'pg';

import { lastLines } from './log-file';
import { LOOPBACK, ensurePortFree, pickFreePort } from './ports';
import { findPostgresBinaries } from './postgres-binaries';
import type { PostgresBinaries } from './postgres-binaries';
import { POSTGRES_ENVIRONMENT, ensureCluster, readPostmasterFile } from './postgres-cluster';
import type { PostmasterFile } from './postgres-cluster';
import { ensurePostgresUser, ensureReachableBinaries, ensureReachableFolder, findDataOwner } from './postgres-user';
import type { PostgresUser } from './postgres-user';
import { isPidAlive } from './process-identity';
import type { StopStep } from './process-identity';
import { ensureSecret } from './secret-file';
import { orStop, startServerProcess, stopOrphan } from './server-process';
import type { ServerProcess } from './server-process';
import { withProgress } from './silence';
import type { LogLine } from './silence';
import { EmbeddedStartError, reasonOf } from './start-error';

const NAME = 'PostgreSQL';
const DATABASE = 'durable_room';
const SUPERUSER = 'postgres';

// Recovery from the write-ahead log after a crash takes tens of seconds at most (max_wal_size is 1 GB).
const READY_WITHIN_MS = 180_000;
const POLL_MS = 15;
const CONNECT_WITHIN_MS = 10_000;
// Another program can take a free port before PostgreSQL binds it.
const PORT_ATTEMPTS = 5;
// The backends of a killed postmaster end within about a second.
const OLD_BACKENDS_GONE_WITHIN_MS = 10_000;

const STOP_STEPS = [
  // "Fast": running transactions are rolled back, and a checkpoint is written.
  { signal: 'SIGINT', waitMs: 20_000 },
  // "Immediate": no checkpoint; the next start recovers from the log.
  { signal: 'SIGQUIT', waitMs: 5000 },
  { signal: 'SIGKILL', waitMs: 5000 },
] as const satisfies readonly StopStep[];

/** `test` loses data in a power failure, and is about twice as fast on a slow disk. */
export type Durability = 'safe' | 'test';

export interface EmbeddedPostgresOptions {
  /** Holds all files of this server and nothing else. Persistent. */
  readonly dir: string;
  /** Undefined: any free port. */
  readonly port?: number | undefined;
  readonly durability?: Durability | undefined;
  readonly log: LogLine;
  /** Called when the server ends without having been stopped. */
  readonly onUnexpectedEnd?: ((reason: string) => void) | undefined;
}

export interface EmbeddedPostgres {
  /** The superuser's URL of the database `durable_room`. It holds the password, so it must not be logged. */
  readonly url: string;
  readonly port: number;
  readonly pid: number;
  /** Resolves when the process is gone. Idempotent. */
  stop(): Promise<void>;
}

/**
 * Starts the PostgreSQL server of that folder, and creates folder and cluster if missing.
 * @throws EmbeddedStartError; nothing is left running
 */
export async function startEmbeddedPostgres(options: EmbeddedPostgresOptions): Promise<EmbeddedPostgres> {
  return await withProgress(options.log, `starting ${NAME}`, () => start(options));
}

interface Cluster {
  readonly binaries: PostgresBinaries;
  readonly user: PostgresUser | null;
  readonly folder: string;
  readonly data: string;
  readonly password: string;
}

async function start(options: EmbeddedPostgresOptions): Promise<EmbeddedPostgres> {
  const { log } = options;
  if (options.port !== undefined) await ensurePortFree(options.port, `the port of ${NAME}`);
  const usualUser = await ensurePostgresUser(log);
  const folder = await ensureReachableFolder(resolve(options.dir), usualUser, log);
  const data = join(folder, 'data');
  const user = await findDataOwner(data, usualUser);
  const binaries = await ensureReachableBinaries(await findPostgresBinaries(), folder, user);
  await clearLastServer(folder, data, log);
  await ensureCluster({ binaries, user, folder, data, superuser: SUPERUSER, durability: options.durability ?? 'safe' });
  const password = await ensureSecret(folder, 'superuser-password', () => randomBytes(24).toString('hex'));
  const cluster: Cluster = { binaries, user, folder, data, password };

  const { server, port } = await startOnPort(cluster, options);
  await orStop(server, () => ensureDatabase(cluster, port));
  server.onUnexpectedEnd((ending) => {
    const reason = `${NAME} (process ${server.pid}) ended by itself: ${ending}; its log is ${logPathOf(folder)}`;
    log(reason);
    options.onUnexpectedEnd?.(reason);
  });
  return { url: urlOf(cluster, port, DATABASE), port, pid: server.pid, stop: () => server.stop() };
}

/** Cleans up after a killed instance: a server that still runs, or a pid file whose pid another process has now. */
async function clearLastServer(folder: string, data: string, log: LogLine): Promise<void> {
  const left = await readPostmasterFile(data);
  const isOurs = (commandLine: readonly string[]): boolean =>
    commandLine.join(' ').includes(data) && (commandLine[0] ?? '').includes('postgres');
  await stopOrphan({
    name: NAME,
    folder,
    recordPath: recordPathOf(folder),
    pids: left === null ? [] : [left.pid],
    isOurs,
    stopSteps: STOP_STEPS,
    log,
  });
  // PostgreSQL itself handles a pid file whose process is gone. It refuses to start if another process of the same user has
  // that pid, which is common in containers, where pids are small. stopOrphan proved that this process isn't ours.
  const stale = await readPostmasterFile(data);
  if (stale !== null && isPidAlive(stale.pid)) await rm(join(data, 'postmaster.pid'), { force: true });
}

async function startOnPort(
  cluster: Cluster,
  options: EmbeddedPostgresOptions,
): Promise<{ server: ServerProcess; port: number }> {
  const startedAt = Date.now();
  for (let attempt = 1; ; attempt += 1) {
    const port = options.port ?? (await pickFreePort());
    const server = await startServerProcess({
      name: NAME,
      executable: cluster.binaries.postgres,
      args: ['-D', cluster.data, ...settingsOf(port, options.durability ?? 'safe')],
      workingFolder: cluster.data,
      environment: POSTGRES_ENVIRONMENT,
      user: cluster.user,
      logPath: logPathOf(cluster.folder),
      recordPath: recordPathOf(cluster.folder),
      stopSteps: STOP_STEPS,
    });
    const failure = await orStop(server, () => waitUntilReady(cluster, server, port));
    if (failure === null) return { server, port };
    await server.stop();
    const portTaken = /could not bind .*address already in use/is.test(failure);
    if (portTaken && options.port !== undefined) await ensurePortFree(port, `the port of ${NAME}`);
    const oldBackends = failure.includes('pre-existing shared memory block');
    const again =
      (portTaken && options.port === undefined && attempt < PORT_ATTEMPTS) ||
      (oldBackends && Date.now() - startedAt < OLD_BACKENDS_GONE_WITHIN_MS);
    if (!again) throw new EmbeddedStartError(failure);
    if (oldBackends) await sleep(200);
  }
}

function settingsOf(port: number, durability: Durability): string[] {
  const settings = {
    port: String(port),
    listen_addresses: LOOPBACK,
    // No socket: a shared folder for sockets can cause conflicts, and a path in our folder may exceed the limit of 107 bytes.
    unix_socket_directories: '',
    max_connections: '200',
    shared_buffers: '128MB',
    password_encryption: 'scram-sha-256',
    timezone: 'UTC',
    log_timezone: 'UTC',
    log_destination: 'stderr',
    logging_collector: 'off',
    log_checkpoints: 'off',
    // The details of an error hold the row, and content of rooms must not be logged.
    log_error_verbosity: 'terse',
    log_min_error_statement: 'panic',
    ...(durability === 'test' ? { fsync: 'off', synchronous_commit: 'off', full_page_writes: 'off' } : {}),
  };
  return Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`]);
}

/**
 * Resolves with null when our own server accepts connections on the port, else with the reason. It reads the pid file in our
 * folder, so that the password is never sent to another server on that port.
 */
async function waitUntilReady(cluster: Cluster, server: ServerProcess, port: number): Promise<string | null> {
  const until = Date.now() + READY_WITHIN_MS;
  while (Date.now() < until) {
    if (server.ending() !== null) {
      return `${NAME} did not start (${server.ending()}). It wrote, to ${logPathOf(cluster.folder)}:\n${lastLines(await server.output())}`;
    }
    const file: PostmasterFile | null = await readPostmasterFile(cluster.data);
    if (file?.pid === server.pid && file.port === port && file.status === 'ready') return null;
    await sleep(POLL_MS);
  }
  return `${NAME} was not ready within ${READY_WITHIN_MS / 1000} s. It wrote, to ${logPathOf(cluster.folder)}:\n${lastLines(await server.output())}`;
}

async function ensureDatabase(cluster: Cluster, port: number): Promise<void> {
  const client = new Client({
    connectionString: urlOf(cluster, port, 'postgres'),
    connectionTimeoutMillis: CONNECT_WITHIN_MS,
  });
  // Without a listener, a connection that breaks between two queries would end this process.
  client.on('error', () => undefined);
  try {
    await client.connect();
    const shown = await client.query<{ data_directory: string }>('SHOW data_directory');
    const served = shown.rows[0]?.data_directory;
    if (served !== cluster.data) {
      throw new EmbeddedStartError(`The server on port ${port} serves ${served ?? 'nothing'}, not ${cluster.data}.`);
    }
    const found = await client.query('SELECT 1 FROM pg_database WHERE datname = $1', [DATABASE]);
    if (found.rowCount === 0) await client.query(`CREATE DATABASE ${DATABASE}`);
  } catch (error) {
    if (error instanceof EmbeddedStartError) throw error;
    throw new EmbeddedStartError(
      `${NAME} started, but can't be used: ${reasonOf(error)}. Its password is kept in ${join(cluster.folder, 'superuser-password')}, its log in ${logPathOf(cluster.folder)}.`,
      { cause: error },
    );
  } finally {
    await client.end().catch(() => undefined);
  }
}

function urlOf(cluster: Cluster, port: number, database: string): string {
  return `postgresql://${SUPERUSER}:${cluster.password}@${LOOPBACK}:${port}/${database}`;
}

function logPathOf(folder: string): string {
  return join(folder, 'postgres.log');
}

function recordPathOf(folder: string): string {
  return join(folder, 'server.json');
}
