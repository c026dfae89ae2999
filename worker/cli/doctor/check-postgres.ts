// Looks at Postgres: reachable, new enough, migrated, and its clock.

import { connectDatabase, type Database } from '../../../prisma/client';
import { DatabaseUnavailable } from '../../../prisma/database-url';
import { readServerFacts } from '../../../prisma/store/reports/inspection';
import { findMissingMigrations } from '../../../prisma/store/reports/readiness';
import type { Environment } from '../../temporal/settings';
import type { Finding } from './findings';

const area = 'postgres';

/** Times in the ledger are Postgres's, those of a history are Temporal's and a worker's: further apart they mislead. */
const CLOCK_MS = 2_000;

/** Connects, or says why not. */
export async function openDatabase(env: Environment): Promise<{ database: Database | null; finding: Finding }> {
  const check = 'reachable';
  const url = env['DATABASE_URL'];
  if (!url) {
    const says = 'DATABASE_URL is not set, and no embedded PostgreSQL is running here';
    const mend = 'set DATABASE_URL=postgres://user:password@host:5432/database, or run: npm start';
    return { database: null, finding: { area, check, state: 'wrong', says, mend } };
  }
  try {
    const database = await connectDatabase(url, {
      poolSize: 2,
      statementTimeoutMs: 10_000,
      lockTimeoutMs: 5_000,
      transactionTimeoutMs: 10_000,
      applicationName: 'durable-room doctor',
    });
    return { database, finding: { area, check, state: 'ok', says: 'connected' } };
  } catch (error) {
    const says = error instanceof DatabaseUnavailable ? error.message : 'it can not be reached';
    const mend = 'check DATABASE_URL, and that the server listens there for this user';
    return { database: null, finding: { area, check, state: 'wrong', says, mend } };
  }
}

export async function checkPostgres(db: Database): Promise<Finding[]> {
  const before = Date.now();
  const { version, now } = await readServerFacts(db);
  // Read between these two moments, so right is anything between them.
  const after = Date.now();
  const apartMs = Math.max(before - now.getTime(), now.getTime() - after, 0);
  const missing = await findMissingMigrations(db);
  return [
    { area, check: 'version', state: 'ok', says: `PostgreSQL ${version}` },
    missing === 0
      ? { area, check: 'migrations', state: 'ok', says: 'all are applied' }
      : {
          area,
          check: 'migrations',
          state: 'wrong',
          says: `${missing} of this code's migrations are missing`,
          mend: 'npm run migrate',
        },
    apartMs <= CLOCK_MS
      ? { area, check: 'clock', state: 'ok', says: `at most ${apartMs} ms from this machine's` }
      : {
          area,
          check: 'clock',
          state: 'wrong',
          says: `${(apartMs / 1_000).toFixed(1)} s from this machine's`,
          mend: 'on the machine whose clock is wrong: timedatectl set-ntp true',
        },
  ];
}
