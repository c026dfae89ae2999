// The command `rotate-keys`: seals every stored secret again under the first master key.

import { connectDatabase } from '../../prisma/client';
import { DatabaseUnavailable } from '../../prisma/database-url';
import { rotateMasterKeys } from '../../prisma/key-rotation';
import { parseMasterKeys, SecretBoxError } from '../../workflows/policy/secret-box';
import { Transient } from '../../prisma/store/db/errors';
import { DEFAULT_DATA_FOLDER, findRunningServices } from '../local/running';
import type { Environment } from '../temporal/settings';
import type { RunCommand } from './commands';

/** Longer than the timeouts of the API and of workers, whose locks the rotation waits for. */
const TIMEOUTS = { lockTimeoutMs: 10_000, statementTimeoutMs: 30_000, transactionTimeoutMs: 60_000 };

export const runRotateKeys: RunCommand = async ({ env }) => {
  try {
    return await rotateKeys(env);
  } catch (error) {
    const expected =
      error instanceof DatabaseUnavailable || error instanceof SecretBoxError || error instanceof Transient;
    console.error(expected ? error.message : error);
    return 1;
  }
};

async function rotateKeys(env: Environment): Promise<number> {
  const set = Object.fromEntries(Object.entries(env).filter(([, value]) => value !== undefined && value !== ''));
  // The master keys of the local servers belong to their database only.
  const running = set['DATABASE_URL'] ? {} : await findRunningServices(set['DATA_FOLDER'] ?? DEFAULT_DATA_FOLDER);
  const { DATABASE_URL: url, MASTER_KEYS: masterKeys = '' } = { ...running, ...set };
  if (url === undefined) {
    throw new DatabaseUnavailable(
      'DATABASE_URL is not set, and no servers of `npm start` are running: set it to the database that holds the secrets',
    );
  }
  const keys = parseMasterKeys(masterKeys);
  const database = await connectDatabase(url, {
    ...TIMEOUTS,
    poolSize: 1,
    applicationName: 'durable-room rotate-keys',
  });
  try {
    const { remaining } = await rotateMasterKeys(database, keys, { log: (line) => console.log(line) });
    if (remaining === 0) return 0;
    console.error(
      `Not sealed under ${keys[0]?.id}: ${remaining}. Add the master keys named above to MASTER_KEYS, or have the owners ` +
        'replace their model keys; make sure that every process seals under the first key; then run this command again',
    );
    return 1;
  } finally {
    await database.close();
  }
}
