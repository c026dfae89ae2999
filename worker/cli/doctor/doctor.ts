// Everything that a deployment stands on, looked at in one go. What is down keeps nothing else from being looked at.

import type { Environment } from '../../temporal/settings';
import { checkModelKeys, openSecretBox } from './check-keys';
import { checkPostgres, openDatabase } from './check-postgres';
import { checkTemporal } from './check-temporal';
import type { Finding } from './findings';

export interface DoctorOptions {
  /** Add the search attributes of a run where the namespace lacks them. Nothing else is ever changed. */
  readonly installSearchAttributes: boolean;
}

/** Looks at everything that this environment names. Never throws for what it finds. */
export async function examine(env: Environment, options: DoctorOptions): Promise<Finding[]> {
  const { database, finding: reachable } = await openDatabase(env);
  const { box, finding: usable } = openSecretBox(env);
  const temporal = checkTemporal(env, { install: options.installSearchAttributes });
  try {
    const db = database ?? null;
    const postgres = db === null ? [] : await checkPostgres(db);
    const migrated = postgres.every((finding) => finding.check !== 'migrations' || finding.state === 'ok');
    const keys = db === null || !migrated ? [] : await checkModelKeys(db, box);
    return [reachable, ...postgres, ...(await temporal), usable, ...keys];
  } finally {
    await database?.close();
  }
}
