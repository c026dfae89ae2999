// Sealed secrets as rotation sees them: which are not sealed under a master key, and sealed anew unless they changed meanwhile.
// What a text is sealed under stands at its beginning, so Postgres finds it without opening anything.

import { modelKeyBinding } from './model-keys';
import type { Database } from '../db/database';
import { inStatement } from '../db/sql-errors';

export interface SealedSecret {
  readonly modelKeyId: string;
  readonly sealed: string;
  /** What it is bound to: to be given when it is opened, and when it is sealed anew. */
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
 * Stores secrets sealed anew, each only if it is still the one that was read, all of them or none. Returns how many were.
 * The version stays: it is the same secret, which a provider refused or did not.
 */
export async function replaceSealed(
  db: Database,
  resealed: readonly { modelKeyId: string; was: string; now: string }[],
): Promise<number> {
  const rows = JSON.stringify(resealed.map(({ modelKeyId, was, now }) => ({ id: modelKeyId, was, now })));
  return db.sqlTransaction(
    (tx) => tx.$executeRaw`
      UPDATE model_keys k SET sealed_secret = x.now
      FROM jsonb_to_recordset(${rows}::jsonb) AS x(id text, was text, now text)
      WHERE k.id = x.id AND k.sealed_secret = x.was`,
  );
}
