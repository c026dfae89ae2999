// The one folder that the embedded default keeps everything in: databases, logs, secrets. Owned by one instance at a time.
import { chmod, mkdir, readFile, readdir, realpath, rename, writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';

import { z } from 'zod';

import { takeFolderLock } from './folder-lock';
import { ensureSecret } from './secret-file';
import { EmbeddedStartError, reasonOf, systemErrorCode } from './start-error';

// Raised whenever a release would misread what an older one left behind.
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
  /** Reads the secret of that name, or keeps what `make` returns. Only the folder's owner can read the file. */
  secret(name: string, make: () => string): Promise<string>;
  /** Gives the folder back. Idempotent. */
  release(): Promise<void>;
}

/** Creates the folder where missing, and takes it for this process. Throws when it is in use, not ours, or of another layout. */
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
    // PostgreSQL refuses to run as root, and its own user has to pass through here on the way to its files. Names
    // can't be listed, and what is beside them stays closed.
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

/** A folder with somebody's files in it is more likely a slip of the pen than a data folder. */
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
