// Checks Postgres: reachable, new enough, migrated, and its clock.

import { connectDatabase, type Database } from '../../../prisma/client';
import { DatabaseUnavailable } from '../../../prisma/database-url';
import { readServerFacts } from '../../../prisma/store/reports/inspection';
import { findMissingMigrations } from '../../../prisma/store/reports/readiness';
import type { Environment } from '../../temporal/settings';
import type { Finding } from './findings';

const area = 'postgres';

/** The ledger holds times of Postgres, a history holds times of Temporal and of workers: a larger difference misleads. */
const CLOCK_MS = 2_000;

/** Connects to the database, or returns a finding that explains the failure. */
export async function openDatabase(env: Environment): Promise<{ database: Database | null; finding: Finding }> {
  const check = 'reachable';
  const url = env['DATABASE_URL'];
  if (!url) {
    const message = 'DATABASE_URL is not set, and no embedded PostgreSQL is running here';
    const fix = 'set DATABASE_URL=postgres://user:password@host:5432/database, or run: npm start';
    return { database: null, finding: { area, check, state: 'wrong', message, fix } };
  }
  try {
    const database = await connectDatabase(url, {
      poolSize: 2,
      statementTimeoutMs: 10_000,
      lockTimeoutMs: 5_000,
      transactionTimeoutMs: 10_000,
      applicationName: 'durable-room doctor',
    });
    return { database, finding: { area, check, state: 'ok', message: 'connected' } };
  } catch (error) {
    const message = error instanceof DatabaseUnavailable ? error.message : 'it can not be reached';
    const fix = 'check DATABASE_URL, and that the server listens there for this user';
    return { database: null, finding: { area, check, state: 'wrong', message, fix } };
  }
}

export async function checkPostgres(db: Database): Promise<Finding[]> {
  const before = Date.now();
  const { version, now } = await readServerFacts(db);
  // The server read its clock between `before` and `after`, so any time between them is correct.
  const after = Date.now();
  const apartMs = Math.max(before - now.getTime(), now.getTime() - after, 0);
  const missing = await findMissingMigrations(db);
  return [
    { area, check: 'version', state: 'ok', message: `PostgreSQL ${version}` },
    missing === 0
      ? { area, check: 'migrations', state: 'ok', message: 'all are applied' }
      : {
          area,
          check: 'migrations',
          state: 'wrong',
          message: `${missing} of this code's migrations are missing`,
          fix: 'npm run migrate',
        },
    apartMs <= CLOCK_MS
      ? { area, check: 'clock', state: 'ok', message: `at most ${apartMs} ms from this machine's` }
      : {
          area,
          check: 'clock',
          state: 'wrong',
          message: `${(apartMs / 1_000).toFixed(1)} s from this machine's`,
          fix: 'on the machine whose clock is wrong: timedatectl set-ntp true',
        },
  ];
}
