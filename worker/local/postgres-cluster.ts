// The folder that PostgreSQL calls a cluster, and the pid file in it. It is created once and belongs to one major version.
import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { mkdir, readFile, readdir, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';

import type { PostgresBinaries } from './postgres-binaries';
import { giveToUser } from './postgres-user';
import type { PostgresUser } from './postgres-user';
import { ensureSecret } from './secret-file';
import { EmbeddedStartError, reasonOf, systemErrorCode, textOf } from './start-error';

const run = promisify(execFile);

// On macOS a server without a locale in its environment ends at once ("became multithreaded during startup").
export const POSTGRES_ENVIRONMENT = { LC_ALL: 'C', PATH: '/usr/bin:/bin', TZ: 'UTC' };

const DRAFT_PREFIX = 'data.new-';

export interface ClusterOptions {
  readonly binaries: PostgresBinaries;
  readonly user: PostgresUser | null;
  readonly folder: string;
  readonly data: string;
  readonly superuser: string;
  readonly durability: 'safe' | 'test';
}

/** Creates the cluster if there is none. Throws if it is of another major version, or if its password is lost. */
export async function ensureCluster(options: ClusterOptions): Promise<void> {
  const { binaries, data, folder } = options;
  const version = await readText(join(data, 'PG_VERSION'));
  if (version === null) {
    await makeCluster(options);
    return;
  }
  const major = binaries.version.split('.')[0] ?? binaries.version;
  if (version.trim() !== major) {
    throw new EmbeddedStartError(
      `The database in ${data} was made by PostgreSQL ${version.trim()}; this release ships PostgreSQL ${binaries.version}, which can't read it. ` +
        `Dump it with PostgreSQL ${version.trim()} (pg_dump) and load the dump into a new data folder, ` +
        `run it yourself and set DATABASE_URL, or choose another data folder to start empty.`,
    );
  }
  const password = join(folder, 'superuser-password');
  if ((await readText(password)) === null) {
    throw new EmbeddedStartError(
      `The password of the database in ${data} is lost: ${password} is missing. Put it back, or choose another data folder to start empty.`,
    );
  }
}

/** Creates a draft and renames it, so that a crash leaves no incomplete cluster. */
async function makeCluster(options: ClusterOptions): Promise<void> {
  const { binaries, user, folder, data } = options;
  await removeDrafts(folder);
  const password = await ensureSecret(folder, 'superuser-password', () => randomBytes(24).toString('hex'));
  const draft = join(folder, `${DRAFT_PREFIX}${process.pid}`);
  const passwordFile = `${draft}.password`;
  await mkdir(draft, { mode: 0o700 });
  await giveToUser(draft, user);
  try {
    await writeFile(passwordFile, password, { mode: 0o600, flag: 'wx' });
    await giveToUser(passwordFile, user);
    await run(
      binaries.initdb,
      [
        `--pgdata=${draft}`,
        `--username=${options.superuser}`,
        `--pwfile=${passwordFile}`,
        '--auth=scram-sha-256',
        '--encoding=UTF8',
        // PostgreSQL's built-in locale: the same order and case rules on every system, with nothing to install.
        '--locale-provider=builtin',
        '--builtin-locale=C.UTF-8',
        '--locale=C',
        ...(options.durability === 'test' ? ['--no-sync'] : []),
      ],
      { cwd: draft, ...user, ...(process.platform === 'win32' ? {} : { env: POSTGRES_ENVIRONMENT }) },
    );
    // Replaces an empty folder of that name, which a person created. If the folder has content, the rename fails.
    await rename(draft, data);
  } catch (error) {
    throw new EmbeddedStartError(`A new database can't be made in ${folder}: ${describeFailure(error)}`, {
      cause: error,
    });
  } finally {
    await removeDrafts(folder);
  }
}

async function removeDrafts(folder: string): Promise<void> {
  for (const name of await readdir(folder)) {
    if (name.startsWith(DRAFT_PREFIX)) await rm(join(folder, name), { recursive: true, force: true });
  }
}

export interface PostmasterFile {
  readonly pid: number;
  readonly port: number;
  readonly status: string;
}

/** The server's entry in `postmaster.pid`, or null without such a file. */
export async function readPostmasterFile(data: string): Promise<PostmasterFile | null> {
  const text = await readText(join(data, 'postmaster.pid'));
  if (text === null) return null;
  const lines = text.split('\n').map((line) => line.trim());
  return { pid: Number(lines[0]), port: Number(lines[3]), status: lines[7] ?? '' };
}

async function readText(file: string): Promise<string | null> {
  try {
    return await readFile(file, 'utf8');
  } catch (error) {
    if (systemErrorCode(error) === 'ENOENT') return null;
    throw error;
  }
}

function describeFailure(error: unknown): string {
  const stderr = textOf(error, 'stderr')?.trim() ?? '';
  if (stderr === '') return reasonOf(error);
  const nameless = /could not look up effective user ID/.test(stderr);
  return nameless ? `${stderr}. Run as a user that has a name on this system, or set DATABASE_URL.` : stderr;
}
