// Starts a Temporal server or a PostgreSQL for one test. While it is stopped, its data can be saved, restored and deleted.

import { execFile } from 'node:child_process';
import { chmod, mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { pickFreePort } from '../../worker/local/ports';
import { startEmbeddedPostgres } from '../../worker/local/postgres';
import { findTemporalCli } from '../../worker/local/temporal-cli';
import { startEmbeddedTemporal } from '../../worker/local/temporal-server';
import { CLI_CACHE } from '../../worker/local/project-root';

const run = promisify(execFile);
const log = (): void => undefined;

export interface OwnServer {
  /** host:port of Temporal, or the URL of PostgreSQL: the same after every start. */
  readonly address: string;
  stop(): Promise<void>;
  start(): Promise<void>;
  /** Saves a copy of the stored data. The server must be stopped. */
  save(): Promise<void>;
  /** Restores the copy of `save`. The server must be stopped. */
  restore(): Promise<void>;
  /** Deletes the stored data. The server must be stopped. */
  deleteData(): Promise<void>;
  /** Stops the server and removes its folder. */
  dispose(): Promise<void>;
}

interface Running {
  readonly address: string;
  stop(): Promise<void>;
}

export async function startOwnTemporal(extraArgs: readonly string[] = []): Promise<OwnServer> {
  const configuredPath = process.env['TEMPORAL_CLI_PATH'];
  const { path: cliPath } = await findTemporalCli({ configuredPath, cacheDir: CLI_CACHE, log });
  const port = await pickFreePort();
  return startOwn('temporal.db', async (dir) =>
    startEmbeddedTemporal({ cliPath, dir, port, headless: true, extraArgs, log }),
  );
}

export async function startOwnPostgres(): Promise<OwnServer> {
  const port = await pickFreePort();
  return startOwn('data', async (dir) => {
    const { url, stop } = await startEmbeddedPostgres({ dir, port, durability: 'test', log });
    return { address: url, stop };
  });
}

/** `stored` is the prefix of the names of the server's data in its folder. */
async function startOwn(stored: string, startIn: (dir: string) => Promise<Running>): Promise<OwnServer> {
  const folder = await mkdtemp(join(tmpdir(), 'operator-'));
  // The user of PostgreSQL must be able to enter the folder.
  await chmod(folder, 0o711);
  const dir = join(folder, 'server');
  const saved = join(folder, 'saved');
  let running = await startIn(dir);
  const { address } = running;
  const namesIn = async (from: string): Promise<string[]> =>
    (await readdir(from)).filter((name) => name.startsWith(stored));
  const deleteData = async (): Promise<void> => {
    for (const name of await namesIn(dir)) await rm(join(dir, name), { recursive: true });
  };
  const copy = async (from: string, to: string): Promise<void> => {
    const names = await namesIn(from);
    if (names.length === 0) throw new Error(`${from} holds no ${stored}`);
    await run('cp', ['-a', '-t', to, ...names.map((name) => join(from, name))]);
  };
  return {
    address,
    stop: () => running.stop(),
    start: async () => {
      running = await startIn(dir);
      if (running.address !== address) throw new Error(`the server has the new address ${running.address}`);
    },
    save: async () => {
      await run('mkdir', ['-p', saved]);
      await copy(dir, saved);
    },
    restore: async () => {
      await deleteData();
      await copy(saved, dir);
    },
    deleteData,
    dispose: async () => {
      await running.stop();
      await rm(folder, { recursive: true, force: true });
    },
  };
}
