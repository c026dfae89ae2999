// The sealed secrets for a rotation of master keys: finds secrets under another master key, and replaces them unless
// they have changed since. A sealed text starts with the id of its master key, so Postgres finds the texts without
// opening them.

import { modelKeyBinding } from './model-keys';
import type { Database } from '../db/database';
import { declareLock } from '../db/lock-order';
import { inStatement } from '../db/sql-errors';

export interface SealedSecret {
  readonly modelKeyId: string;
  readonly sealed: string;
  /** The binding, for opening and resealing. */
  readonly boundTo: string;
}

/** Up to `limit` secrets whose sealed text has another prefix, also of revoked keys, by id after `after`. */
export async function listSealedUnderOtherKeys(
  db: Database,
  prefix: string,
  after: string,
  limit: number,
): Promise<SealedSecret[]> {
  const rows = await inStatement(
    db.$queryRaw<{ id: string; baseUrl: string; sealed: string }[]>`
      SELECT id, base_url AS "baseUrl", sealed_secret AS sealed FROM model_keys
      WHERE NOT starts_with(sealed_secret, ${prefix}) AND id > ${after} ORDER BY id LIMIT ${limit}`,
  );
  return rows.map(({ id, baseUrl, sealed }) => ({ modelKeyId: id, sealed, boundTo: modelKeyBinding(id, baseUrl) }));
}

/** The number of all secrets, and of secrets with this prefix. */
export async function countSealed(db: Database, prefix: string): Promise<{ all: number; matching: number }> {
  const [counts] = await inStatement(
    db.$queryRaw<{ all: number; matching: number }[]>`
      SELECT count(*)::int AS all, count(*) FILTER (WHERE starts_with(sealed_secret, ${prefix}))::int AS matching
      FROM model_keys`,
  );
  return counts ?? { all: 0, matching: 0 };
}

/**
 * Stores resealed secrets in one transaction, each only if its stored text is still `was`. Returns their number. The
 * version stays, because the secret is the same, and a provider's refusal of it still counts.
 */
export async function replaceSealed(
  db: Database,
  resealed: readonly { modelKeyId: string; was: string; now: string }[],
): Promise<number> {
  const rows = JSON.stringify(resealed.map(({ modelKeyId, was, now }) => ({ id: modelKeyId, was, now })));
  return db.sqlTransaction((tx) => {
    declareLock(tx, 'model_key');
    return tx.$executeRaw`
      UPDATE model_keys k SET sealed_secret = x.now
      FROM jsonb_to_recordset(${rows}::jsonb) AS x(id text, was text, now text)
      WHERE k.id = x.id AND k.sealed_secret = x.was`;
  });
}
