// `npm run rotate-keys`: seals every stored secret anew under the first master key. Exit code 0 when all are under it, 1 when not.

import { connectDatabase } from '../../../prisma/client';
import { DatabaseUnavailable } from '../../../prisma/database-url';
import { rotateMasterKeys } from '../../../prisma/key-rotation';
import { parseMasterKeys, SecretBoxError } from '../../../workflows/policy/secret-box';
import { Transient } from '../../../prisma/store/db/errors';
import { DEFAULT_DATA_FOLDER, findRunningServices } from '../../local/running';

/** As patient as somebody at a terminal; live processes, whose locks it waits for, give up sooner. */
const TIMEOUTS = { lockTimeoutMs: 10_000, statementTimeoutMs: 30_000, transactionTimeoutMs: 60_000 };

async function main(): Promise<void> {
  const set = Object.fromEntries(Object.entries(process.env).filter(([, value]) => value !== ''));
  // The master keys of the embedded services are for their database only.
  const running = set['DATABASE_URL'] ? {} : await findRunningServices(set['DATA_FOLDER'] ?? DEFAULT_DATA_FOLDER);
  const { DATABASE_URL: url, MASTER_KEYS: masterKeys = '' } = { ...running, ...set };
  if (url === undefined) {
    throw new DatabaseUnavailable(
      'DATABASE_URL is not set, and nothing that `npm start` started runs: it names the database whose secrets to seal anew',
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
    if (remaining === 0) return;
    console.error(
      `Not sealed under ${keys[0]?.id}: ${remaining}. Add the master keys named above to MASTER_KEYS, or have the owners ` +
        'replace their model keys; see that every process seals under the first key; then run this again',
    );
    process.exitCode = 1;
  } finally {
    await database.close();
  }
}

main().catch((error: unknown) => {
  const expected =
    error instanceof DatabaseUnavailable || error instanceof SecretBoxError || error instanceof Transient;
  console.error(expected ? error.message : error);
  process.exitCode = 1;
});
