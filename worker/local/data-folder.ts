// The data folder of the local servers: databases, logs and secrets. One instance owns it at a time.
import { chmod, mkdir, readFile, readdir, realpath, rename, writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';

import { z } from 'zod';

import { takeFolderLock } from './folder-lock';
import { ensureSecret } from './secret-file';
import { EmbeddedStartError, reasonOf, systemErrorCode } from './start-error';

// Raised when a release can't read the data folder of an older one.
const LAYOUT_VERSION = 1;
const LAYOUT_FILE = 'layout.json';
const LOCK_FOLDER = 'lock';

const Layout = z.object({ madeBy: z.literal('durable-room'), version: z.int().nonnegative() });

export interface DataFolder {
  /** Absolute, symbolic links resolved. */
  readonly path: string;
  readonly postgres: string;
  readonly temporal: string;
  readonly logs: string;
  /** Reads the secret of that name, or stores the one that `make` returns. Only the folder's owner can read the file. */
  secret(name: string, make: () => string): Promise<string>;
  /** Releases the folder for other instances. Idempotent. */
  release(): Promise<void>;
}

/** Creates the folder if missing, and locks it for this process. Throws if it is in use, foreign, or of another layout. */
export async function openDataFolder(path: string): Promise<DataFolder> {
  try {
    return await open(resolve(path));
  } catch (error) {
    if (error instanceof EmbeddedStartError) throw error;
    throw new EmbeddedStartError(`The data folder ${resolve(path)} can't be used: ${reasonOf(error)}`, {
      cause: error,
    });
  }
}

async function open(path: string): Promise<DataFolder> {
  await mkdir(path, { recursive: true, mode: 0o700 });
  const folder = await realpath(path);
  await refuseForeignContent(folder);
  const lock = await takeFolderLock(folder);
  try {
    await ensureLayout(folder);
    // PostgreSQL refuses to run as root, so its own user must be able to pass through this folder to its files. That user
    // can't list the folder, and the other subfolders stay closed to it.
    await chmod(folder, process.getuid?.() === 0 ? 0o711 : 0o700);
    const logs = join(folder, 'logs');
    await mkdir(logs, { recursive: true, mode: 0o700 });
    return {
      path: folder,
      postgres: join(folder, 'postgres'),
      temporal: join(folder, 'temporal'),
      logs,
      secret: (name, make) => ensureSecret(join(folder, 'secrets'), name, make),
      release: () => lock.release(),
    };
  } catch (error) {
    await lock.release();
    throw error;
  }
}

/** A folder that holds other files was probably named by mistake. */
async function refuseForeignContent(folder: string): Promise<void> {
  const names = await readdir(folder);
  if (names.includes(LAYOUT_FILE)) return;
  const foreign = names.find((name) => name !== LOCK_FOLDER && !name.startsWith(`${LAYOUT_FILE}.`));
  if (foreign === undefined) return;
  throw new EmbeddedStartError(
    `The folder ${folder} holds other files (${foreign}) and was not made by Durable Room. Choose an empty or a new data folder.`,
  );
}

async function ensureLayout(folder: string): Promise<void> {
  const file = join(folder, LAYOUT_FILE);
  const text = await readFile(file, 'utf8').catch((error: unknown) => {
    if (systemErrorCode(error) === 'ENOENT') return null;
    throw error;
  });
  if (text === null) {
    const draft = `${file}.${process.pid}`;
    await writeFile(draft, `${JSON.stringify({ madeBy: 'durable-room', version: LAYOUT_VERSION })}\n`, { mode: 0o600 });
    await rename(draft, file);
    return;
  }
  const version = parseLayout(file, text);
  if (version === LAYOUT_VERSION) return;
  const relation = version > LAYOUT_VERSION ? 'a newer' : 'an older';
  throw new EmbeddedStartError(
    `The data folder ${folder} has layout version ${version}, made by ${relation} release of Durable Room; this release ` +
      `reads version ${LAYOUT_VERSION}. Run the release that made it, or choose another data folder.`,
  );
}

function parseLayout(file: string, text: string): number {
  try {
    return Layout.parse(JSON.parse(text)).version;
  } catch (error) {
    throw new EmbeddedStartError(`${file} can't be read as the layout of a data folder. Choose another data folder.`, {
      cause: error,
    });
  }
}
