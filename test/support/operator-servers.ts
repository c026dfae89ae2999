// A Temporal server or a PostgreSQL of a test's own, whose data can be kept while it is stopped, put back, and lost.

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
  /** Copies what is stored. The server must be stopped. */
  keep(): Promise<void>;
  /** Makes what is stored what it was at `keep`. The server must be stopped. */
  putBack(): Promise<void>;
  /** Removes what is stored. The server must be stopped. */
  lose(): Promise<void>;
  /** Stops it and removes everything. */
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

/** `stored` is how the names of what a server stores begin, in its folder. */
async function startOwn(stored: string, startIn: (dir: string) => Promise<Running>): Promise<OwnServer> {
  const folder = await mkdtemp(join(tmpdir(), 'operator-'));
  // PostgreSQL's own user passes through here.
  await chmod(folder, 0o711);
  const dir = join(folder, 'server');
  const kept = join(folder, 'kept');
  let running = await startIn(dir);
  const { address } = running;
  const namesIn = async (from: string): Promise<string[]> =>
    (await readdir(from)).filter((name) => name.startsWith(stored));
  const lose = async (): Promise<void> => {
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
      if (running.address !== address) throw new Error(`the server came back as ${running.address}`);
    },
    keep: async () => {
      await run('mkdir', ['-p', kept]);
      await copy(dir, kept);
    },
    putBack: async () => {
      await lose();
      await copy(kept, dir);
    },
    lose,
    dispose: async () => {
      await running.stop();
      await rm(folder, { recursive: true, force: true });
    },
  };
}
