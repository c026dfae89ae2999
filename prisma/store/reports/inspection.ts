// The data that `doctor` reads about the whole deployment: the clock and all model keys. No route of the API uses this
// file.

import { modelKeyBinding } from '../model-keys/model-keys';
import type { Reader } from '../db/transaction';

export interface ServerFacts {
  readonly version: string;
  readonly now: Date;
}

export async function readServerFacts(reader: Reader): Promise<ServerFacts> {
  const [facts] = await reader.$queryRaw<ServerFacts[]>`
    SELECT current_setting('server_version') AS version, clock_timestamp() AS now`;
  if (facts === undefined) throw new Error('Postgres answered no row');
  return facts;
}

export interface StoredModelKey {
  readonly id: string;
  readonly companyId: string;
  readonly sealedSecret: string;
  /** The binding of its sealed secret. */
  readonly binding: string;
  readonly rejected: boolean;
}

/** All model keys except revoked ones, which are never opened again. */
export async function listStoredModelKeys(reader: Reader): Promise<StoredModelKey[]> {
  const keys = await reader.modelKey.findMany({ where: { revokedAt: null }, orderBy: { id: 'asc' } });
  return keys.map((key) => ({
    id: key.id,
    companyId: key.companyId,
    sealedSecret: key.sealedSecret,
    binding: modelKeyBinding(key.id, key.baseUrl),
    rejected: key.rejectedVersion === key.version,
  }));
}
