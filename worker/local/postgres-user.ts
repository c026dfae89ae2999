// For root only: PostgreSQL refuses to run as root, so it runs as the system user `postgres`, which must be able to reach its
// program and its files. For any other user these functions change nothing.
import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { chmod, chown, cp, mkdir, readFile, realpath, rename, rm, stat, writeFile } from 'node:fs/promises';
import { homedir } from 'node:os';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';

import { binariesIn } from './postgres-binaries';
import type { PostgresBinaries } from './postgres-binaries';
import type { LogLine } from './silence';
import { EmbeddedStartError, reasonOf, systemErrorCode } from './start-error';

const run = promisify(execFile);

const USER_NAME = 'postgres';
// Every user may pass through it, root may write to it, and a reboot keeps it.
const REACHABLE_FOLDER = '/var/lib/durable-room';

export interface PostgresUser {
  readonly uid: number;
  readonly gid: number;
}

/** The user that runs PostgreSQL, created if missing. Null: the current user. */
export async function ensurePostgresUser(log: LogLine): Promise<PostgresUser | null> {
  if (process.getuid?.() !== 0) return null;
  const known = await lookUpUser();
  if (known !== null) return known;
  log(`making the system user ${USER_NAME}, because PostgreSQL refuses to run as root`);
  try {
    await run('useradd', ['--system', '--user-group', '--no-create-home', '--shell', '/usr/sbin/nologin', USER_NAME]);
  } catch (error) {
    const made = await lookUpUser();
    if (made !== null) return made;
    throw new EmbeddedStartError(
      `PostgreSQL refuses to run as root, and the system user ${USER_NAME} can't be made: ${reasonOf(error).trim()}. ` +
        `Make that user, run as another user than root, or set DATABASE_URL to a PostgreSQL of your own.`,
      { cause: error },
    );
  }
  const made = await lookUpUser();
  if (made === null) throw new EmbeddedStartError(`The system user ${USER_NAME} was made, but can't be found.`);
  return made;
}

/**
 * The owner of the existing files, or the usual user if there are none. PostgreSQL serves only files of its own user, whose
 * uid may differ in a rebuilt container, or the files may belong to a person who ran it before root did.
 */
export async function findDataOwner(data: string, usual: PostgresUser | null): Promise<PostgresUser | null> {
  if (usual === null) return null;
  try {
    const { uid, gid } = await stat(data);
    return uid === 0 ? usual : { uid, gid };
  } catch (error) {
    if (systemErrorCode(error) === 'ENOENT') return usual;
    throw error;
  }
}

async function lookUpUser(): Promise<PostgresUser | null> {
  try {
    const [uid, gid] = await Promise.all([run('id', ['-u', USER_NAME]), run('id', ['-g', USER_NAME])]);
    return { uid: Number(uid.stdout), gid: Number(gid.stdout) };
  } catch {
    return null;
  }
}

/**
 * A folder for PostgreSQL's files that its user can reach: `dir` itself or, if a parent such as /root is closed to that user,
 * another folder whose path `dir/location` keeps. The permissions of foreign folders are never changed.
 */
export async function ensureReachableFolder(dir: string, user: PostgresUser | null, log: LogLine): Promise<string> {
  await mkdir(dir, { recursive: true, mode: 0o700 });
  const folder = await realpath(dir);
  if (user === null) return folder;
  await chmod(folder, 0o711);
  const location = join(folder, 'location');
  const elsewhere = await readIfThere(location);
  if (elsewhere !== null) {
    if (await isFolder(elsewhere)) return elsewhere;
    throw new EmbeddedStartError(
      `PostgreSQL's files were kept in ${elsewhere}, named by ${location}, and that folder is gone. ` +
        `Restore it, or remove ${folder} to start with an empty database.`,
    );
  }
  await openOwnParent(dirname(folder));
  const blocked = await findBlockedFolder(folder, user);
  if (blocked === null) return folder;
  const made = join(REACHABLE_FOLDER, randomBytes(6).toString('hex'));
  try {
    await mkdir(made, { recursive: true, mode: 0o711 });
    await writeFile(location, made, { mode: 0o600, flag: 'wx' });
  } catch (error) {
    throw new EmbeddedStartError(
      `The user ${USER_NAME}, as which PostgreSQL runs, can't pass through ${blocked}, and ${made} can't be used instead: ` +
        `${reasonOf(error)}. Choose a data folder that every user can reach, such as one under /var/lib or /srv.`,
      { cause: error },
    );
  }
  log(`PostgreSQL's user can't pass through ${blocked}: its files are kept in ${made}; ${location} holds that path`);
  return made;
}

/** The binaries at a path where that user can run them: a copy in `folder` if a parent of the package is closed to it. */
export async function ensureReachableBinaries(
  binaries: PostgresBinaries,
  folder: string,
  user: PostgresUser | null,
): Promise<PostgresBinaries> {
  if (user === null) return binaries;
  const from = await realpath(binaries.root);
  if ((await findBlockedFolder(join(from, 'bin'), user)) === null) return binaries;
  const to = join(folder, `server-${binaries.version}`);
  if (!(await isFolder(to))) {
    const draft = `${to}.${process.pid}`;
    await rm(draft, { recursive: true, force: true });
    await cp(from, draft, { recursive: true, verbatimSymlinks: true });
    await chmod(draft, 0o755);
    await rename(draft, to);
  }
  return { ...binaries, ...binariesIn(to) };
}

/** Gives a file or an empty folder to PostgreSQL's user. */
export async function giveToUser(path: string, user: PostgresUser | null): Promise<void> {
  if (user !== null) await chown(path, user.uid, user.gid);
}

/** The first folder on the path to `folder`, itself included, that the user can't pass through, or null. */
export async function findBlockedFolder(folder: string, user: PostgresUser): Promise<string | null> {
  const parent = dirname(folder);
  const above = parent === folder ? null : await findBlockedFolder(parent, user);
  if (above !== null) return above;
  const { mode, uid, gid } = await stat(folder);
  const searchBit = uid === user.uid ? 0o100 : gid === user.gid ? 0o010 : 0o001;
  return (mode & searchBit) === 0 ? folder : null;
}

/** Lets other users pass through the parent if it is ours: a data folder, or the temporary folder of a test. */
async function openOwnParent(parent: string): Promise<void> {
  const { mode, uid } = await stat(parent);
  if (uid !== process.getuid?.() || (mode & 0o777) !== 0o700 || parent === homedir()) return;
  await chmod(parent, 0o711);
}

async function readIfThere(file: string): Promise<string | null> {
  try {
    return (await readFile(file, 'utf8')).trim();
  } catch (error) {
    if (systemErrorCode(error) === 'ENOENT') return null;
    throw error;
  }
}

async function isFolder(path: string): Promise<boolean> {
  return await stat(path).then(
    (entry) => entry.isDirectory(),
    () => false,
  );
}
