// Runs all checks of a deployment. A server that is down does not stop the checks of the others.

import type { Environment } from '../../temporal/settings';
import { checkModelKeys, openSecretBox } from './check-keys';
import { checkPostgres, openDatabase } from './check-postgres';
import { checkTemporal } from './check-temporal';
import type { Finding } from './findings';

export interface DoctorOptions {
  /** Add the search attributes of a run that the namespace lacks. Nothing else is ever changed. */
  readonly installSearchAttributes: boolean;
}

/** Checks everything that this environment names. A failed check is a finding, not an error. */
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
