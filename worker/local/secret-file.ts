// Secrets made at the first start and kept in a file: never in a log, an argument or an environment.
import { randomBytes } from 'node:crypto';
import { chmod, link, mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import { systemErrorCode } from './start-error';

/**
 * Reads the secret of that name, or keeps what `make` returns, in a file that only its owner can read. Of two that make
 * it at once the first wins, and both get its secret.
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
  if (secret === null) throw new Error(`the secret ${name} vanished while it was made`);
  return secret;
}

async function readSecret(file: string): Promise<string | null> {
  try {
    const secret = await readFile(file, 'utf8');
    // A copy or a restored backup may have come back readable by all.
    await chmod(file, 0o600);
    return secret;
  } catch (error) {
    if (systemErrorCode(error) === 'ENOENT') return null;
    throw error;
  }
}
