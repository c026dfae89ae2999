// A database with model keys that are sealed under master keys of the test's choice, for tests of master key rotation.

import { randomBytes } from 'node:crypto';
import { connectDatabase } from '../../prisma/client';
import { newId } from '../../prisma/store/db/ids';
import { modelKeyBinding } from '../../prisma/store/model-keys/model-keys';
import type { Database } from '../../prisma/store/db/database';
import { createSecretBox, type MasterKey, type SecretBox } from '../../workflows/policy/secret-box';
import { createTestDatabase } from './database';

export const MODEL_ADDRESS = 'https://api.example.com/v1';

export const newMasterKey = (id: string): MasterKey => ({ id, key: randomBytes(32) });

export interface SealedSecrets {
  readonly url: string;
  readonly companyId: string;
  readonly db: Database;
  /** Stores this many secrets, sealed under a master key. Returns the secrets by model key id. */
  store(count: number, under: MasterKey): Promise<Map<string, string>>;
  /** Opens every stored secret with these master keys. */
  openAll(...keys: MasterKey[]): Promise<Map<string, string>>;
  close(): Promise<void>;
}

export async function openSealedSecrets(): Promise<SealedSecrets> {
  const test = await createTestDatabase({ migrated: true });
  const timeouts = { lockTimeoutMs: 40_000, statementTimeoutMs: 50_000, transactionTimeoutMs: 60_000 };
  const database = await connectDatabase(test.url, { poolSize: 4, applicationName: 'durable-room-test', ...timeouts });
  const db = database;
  const companyId = newId('co');
  await db.company.create({ data: { id: companyId, slug: 'larkspur', name: 'Larkspur' } });
  return {
    url: test.url,
    companyId,
    db,
    store: async (count, under) => {
      const box = createSecretBox([under]);
      const secrets = new Map(Array.from({ length: count }, () => [newId('mk'), randomBytes(12).toString('hex')]));
      await db.modelKey.createMany({
        data: [...secrets].map(([id, secret]) => ({
          id,
          companyId,
          name: 'main',
          provider: 'openai_compatible',
          baseUrl: MODEL_ADDRESS,
          ownerSupplied: false,
          sealedSecret: box.seal(secret, modelKeyBinding(id, MODEL_ADDRESS)),
        })),
      });
      return secrets;
    },
    openAll: async (...keys) => {
      const box: SecretBox = createSecretBox(keys);
      const rows = await db.modelKey.findMany({ orderBy: { id: 'asc' } });
      return new Map(rows.map((row) => [row.id, box.open(row.sealedSecret, modelKeyBinding(row.id, row.baseUrl))]));
    },
    close: async () => {
      await database.close();
      await test.drop();
    },
  };
}
