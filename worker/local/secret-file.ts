// Secrets that the first start creates and keeps in a file; never in a log, an argument or an environment.
import { randomBytes } from 'node:crypto';
import { chmod, link, mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import { systemErrorCode } from './start-error';

/**
 * Reads the secret of that name, or stores the one that `make` returns, in a file that only its owner can read. If two
 * processes create it at the same time, the first one wins and both get its secret.
 */
export async function ensureSecret(dir: string, name: string, make: () => string): Promise<string> {
  if (!/^[a-z0-9][a-z0-9-]*$/.test(name)) throw new Error(`not the name of a secret: ${name}`);
  await mkdir(dir, { recursive: true, mode: 0o700 });
  const file = join(dir, name);
  const draft = `${file}.${randomBytes(6).toString('hex')}`;
  const kept = await readSecret(file);
  if (kept !== null) return kept;
  await writeFile(draft, make(), { mode: 0o600, flag: 'wx', flush: true });
  try {
    await link(draft, file);
  } catch (error) {
    if (systemErrorCode(error) !== 'EEXIST') throw error;
  } finally {
    await rm(draft, { force: true });
  }
  const secret = await readSecret(file);
  if (secret === null) throw new Error(`the secret ${name} was removed while it was created`);
  return secret;
}

async function readSecret(file: string): Promise<string | null> {
  try {
    const secret = await readFile(file, 'utf8');
    // A copy or a restored backup may be readable by everyone.
    await chmod(file, 0o600);
    return secret;
  } catch (error) {
    if (systemErrorCode(error) === 'ENOENT') return null;
    throw error;
  }
}
