// The command `migrate`: applies the migrations that the database lacks.

import { DatabaseUnavailable } from '../../prisma/database-url';
import { migrateDatabase, MigrationError } from '../../prisma/migrate';
import type { RunCommand } from './commands';

/** Reads only DATABASE_URL: a database is never migrated because it happens to run in the data folder. */
export const runMigrate: RunCommand = async ({ env }) => {
  const databaseUrl = env['DATABASE_URL'];
  if (databaseUrl === undefined || databaseUrl === '') {
    console.error('DATABASE_URL is not set: set it to the database to migrate');
    return 1;
  }
  try {
    const { applied } = await migrateDatabase(databaseUrl, { log: (line) => console.log(line) });
    if (applied.length === 0) console.log('Nothing to apply: the database is up to date');
    return 0;
  } catch (error) {
    const expected = error instanceof MigrationError || error instanceof DatabaseUnavailable;
    console.error(expected ? error.message : error);
    return 1;
  }
};
