// Starts a PostgreSQL and a Temporal server that a test can restart on their files and ports while runs are held. Both keep
// acknowledged data after a SIGKILL, like the servers of `npm start`; the shared servers of the test run do not.

import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { openDataFolder, type DataFolder } from '../../worker/local/data-folder';
import { pickFreePort } from '../../worker/local/ports';
import { startEmbeddedPostgres, type EmbeddedPostgres } from '../../worker/local/postgres';
import { findTemporalCli } from '../../worker/local/temporal-cli';
import { startEmbeddedTemporal, type EmbeddedTemporal } from '../../worker/local/temporal-server';
import { until } from './runs';

export interface CrashServersOptions {
  /** The folder that caches the Temporal CLI. */
  readonly cliCacheDir: string;
  readonly temporalCliPath: string | undefined;
  readonly log: (line: string) => void;
}

/** `fast`: a fast shutdown, which ends every session. `kill`: SIGKILL, and recovery from the log at the next start. */
export type PostgresStop = 'fast' | 'kill';

export interface CrashServers {
  readonly databaseUrl: string;
  readonly temporalAddress: string;
  /** Resolves when it is running again, on the same folder and port. */
  restartPostgres(how: PostgresStop): Promise<void>;
  /** SIGKILL. Resolves when it is running again, on the same file and port. */
  restartTemporal(): Promise<void>;
  /** Stops both and removes their files. Idempotent, and allowed during a restart. */
  stop(): Promise<void>;
}

/** Starts both servers. If one fails to start, stops the other. */
export async function startCrashServers(options: CrashServersOptions): Promise<CrashServers> {
  const path = await mkdtemp(join(tmpdir(), 'durable-room-crash-'));
  let folder: DataFolder | undefined;
  let postgres: EmbeddedPostgres | undefined;
  let temporal: EmbeddedTemporal | undefined;
  let restarting: Promise<void> = Promise.resolve();
  let stopping: Promise<void> | undefined;
  const stop = (): Promise<void> =>
    (stopping ??= (async () => {
      await restarting.catch(() => undefined);
      try {
        await temporal?.stop();
      } finally {
        await postgres?.stop();
      }
      await folder?.release();
      await rm(path, { recursive: true, force: true });
    })());
  const { log } = options;
  try {
    const opened = (folder = await openDataFolder(path));
    const cli = await findTemporalCli({
      configuredPath: options.temporalCliPath,
      cacheDir: options.cliCacheDir,
      log,
    });
    const ports = { postgres: await pickFreePort(), temporal: await pickFreePort() };
    const startPostgres = async (): Promise<EmbeddedPostgres> =>
      (postgres = await startEmbeddedPostgres({ dir: opened.postgres, port: ports.postgres, durability: 'safe', log }));
    const startTemporal = async (): Promise<EmbeddedTemporal> =>
      (temporal = await startEmbeddedTemporal({
        cliPath: cli.path,
        dir: opened.temporal,
        port: ports.temporal,
        headless: true,
        log,
      }));
    const first = await startPostgres();
    const { address } = await startTemporal();
    const restart = (work: () => Promise<unknown>): Promise<void> => {
      if (stopping) return Promise.reject(new Error('the servers are being stopped'));
      restarting = work().then(() => undefined);
      return restarting;
    };
    return {
      databaseUrl: first.url,
      temporalAddress: address,
      restartPostgres: (how) =>
        restart(async () => {
          if (how === 'kill') await killServer(postgres?.pid);
          await postgres?.stop();
          await startPostgres();
        }),
      restartTemporal: () =>
        restart(async () => {
          await killServer(temporal?.pid);
          await temporal?.stop();
          await startTemporal();
        }),
      stop,
    };
  } catch (error) {
    await stop();
    throw error;
  }
}

/** Resolves when the process is gone. It is our child, so its pid is not reused before we are notified of its end. */
async function killServer(pid: number | undefined): Promise<void> {
  if (pid === undefined) throw new Error('the server is not running');
  process.kill(pid, 'SIGKILL');
  await until(`process ${pid} to be gone`, async () => {
    try {
      return !process.kill(pid, 0);
    } catch {
      return true;
    }
  });
}
