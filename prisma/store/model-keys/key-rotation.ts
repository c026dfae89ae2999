// The sealed secrets that a rotation reads and replaces: those that are sealed under another master key and did not change
// meanwhile. A sealed text begins with the id of its master key, so Postgres finds it without opening the text.

import { modelKeyBinding } from './model-keys';
import type { Database } from '../db/database';
import { declareLock } from '../db/lock-order';
import { inStatement } from '../db/sql-errors';

export interface SealedSecret {
  readonly modelKeyId: string;
  readonly sealed: string;
  /** What it is bound to: needed to open it, and to seal it again. */
  readonly boundTo: string;
}

/** Up to `limit` secrets, of revoked keys too, whose sealed text begins otherwise, by id after `after`. */
export async function listSealedOtherwise(
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

/** How many secrets there are, and how many of them begin so. */
export async function countSealed(db: Database, prefix: string): Promise<{ all: number; so: number }> {
  const [counts] = await inStatement(
    db.$queryRaw<{ all: number; so: number }[]>`
      SELECT count(*)::int AS all, count(*) FILTER (WHERE starts_with(sealed_secret, ${prefix}))::int AS so
      FROM model_keys`,
  );
  return counts ?? { all: 0, so: 0 };
}

/**
 * Stores resealed secrets, each only if it is unchanged since it was read, in one transaction. Returns how many were stored.
 * The version stays, because the secret is the same.
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
