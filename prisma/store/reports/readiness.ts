// Checks that the database has all migrations of this code.

import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { findPrismaDir } from '../../migrate';
import type { Database } from '../db/database';

let known: readonly string[] | undefined;

/** The number of this code's migrations that the database lacks. All of them if it was never migrated. */
export async function findMissingMigrations(db: Database): Promise<number> {
  known ??= readdirSync(join(findPrismaDir(), 'migrations'), { withFileTypes: true })
    .filter((entry) => entry.isDirectory())
    .map((entry) => entry.name);
  const [made] = await db.$queryRaw<{ made: boolean }[]>`SELECT to_regclass('_prisma_migrations') IS NOT NULL AS made`;
  if (made?.made !== true) return known.length;
  const applied = await db.$queryRaw<{ name: string }[]>`
    SELECT migration_name AS name FROM _prisma_migrations WHERE finished_at IS NOT NULL AND rolled_back_at IS NULL`;
  const names = new Set(applied.map((migration) => migration.name));
  return known.filter((name) => !names.has(name)).length;
}
