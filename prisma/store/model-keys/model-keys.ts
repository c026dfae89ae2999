// Model keys: the secret of a company at a provider, sealed and bound to its address.

import type { ModelKey as ModelKeyRow, ModelKeyTest } from '../../generated/client';
import type { ModelProtocol } from '../../../workflows/policy/model-endpoint';
import { Conflict, NotFound } from '../db/errors';
import { endOpenKeyTest, keyTestResource } from './key-tests';
import { byId, pageOf, type Page, type PageRequest } from '../db/paging';
import { declareLock } from '../db/lock-order';
import type { Reader, Tx } from '../db/transaction';

/** A key with its newest test. */
type ModelKey = ModelKeyRow & { readonly test: ModelKeyTest | null };

/** The binding of a sealed secret: this key at this address. Another address needs the secret again. */
export function modelKeyBinding(modelKeyId: string, baseUrl: string): string {
  return `${modelKeyId}|${baseUrl}`;
}

/** Stores a model key. The caller has sealed its secret for this id and address. */
export async function createModelKey(
  tx: Tx,
  key: {
    id: string;
    companyId: string;
    name: string;
    provider: ModelProtocol;
    baseUrl: string;
    ownerSupplied: boolean;
    sealedSecret: string;
  },
): Promise<ModelKey> {
  await tx.$executeRaw`
    INSERT INTO model_keys (id, company_id, name, provider, base_url, owner_supplied, sealed_secret)
    VALUES (${key.id}, ${key.companyId}, ${key.name}, ${key.provider}, ${key.baseUrl}, ${key.ownerSupplied},
            ${key.sealedSecret})`;
  return loadModelKey(tx, key.companyId, key.id);
}

/** @throws NotFound when this company has no such key */
export async function loadModelKey(reader: Reader, companyId: string, modelKeyId: string): Promise<ModelKey> {
  const key = await reader.modelKey.findUnique({ where: { id: modelKeyId, companyId }, include: { test: true } });
  if (!key) throw new NotFound('no such model key');
  return key;
}

/** A company's model keys, including revoked ones. */
export async function listModelKeys(reader: Reader, companyId: string, page: PageRequest): Promise<Page<ModelKey>> {
  const { where, ...rest } = byId(page);
  const keys = await reader.modelKey.findMany({ where: { ...where, companyId }, include: { test: true }, ...rest });
  return pageOf(keys, page, (key) => key.id);
}

/**
 * Renames a key or replaces its secret. A new secret is a new version, which no provider has rejected, and has no open
 * test.
 * @throws NotFound; Conflict when the key was revoked
 */
export async function updateModelKey(
  tx: Tx,
  companyId: string,
  modelKeyId: string,
  change: { name: string | undefined; sealedSecret: string | undefined },
): Promise<ModelKey> {
  const secret = change.sealedSecret ?? null;
  declareLock(tx, 'model_key');
  const changed = await tx.$executeRaw`
    UPDATE model_keys SET name = coalesce(${change.name ?? null}, name), sealed_secret = coalesce(${secret}, sealed_secret),
                          version = version + CASE WHEN ${secret}::text IS NULL THEN 0 ELSE 1 END
    WHERE id = ${modelKeyId} AND company_id = ${companyId} AND revoked_at IS NULL`;
  if (changed === 1 && secret !== null) await endOpenKeyTest(tx, modelKeyId, 'replaced');
  const key = await loadModelKey(tx, companyId, modelKeyId);
  if (changed === 0) throw new Conflict('the model key was revoked');
  return key;
}

/**
 * Revokes a key permanently: later wakes of agents that use it are suppressed. False when it was revoked before.
 * @throws NotFound
 */
export async function revokeModelKey(tx: Tx, companyId: string, modelKeyId: string): Promise<boolean> {
  declareLock(tx, 'model_key');
  const changed = await tx.$executeRaw`
    UPDATE model_keys SET revoked_at = clock_ms()
    WHERE id = ${modelKeyId} AND company_id = ${companyId} AND revoked_at IS NULL`;
  if (changed === 1) await endOpenKeyTest(tx, modelKeyId, 'revoked');
  else await loadModelKey(tx, companyId, modelKeyId);
  return changed === 1;
}

/** A model key as the API shows it, without its secret. `provider`: the operator's name for its address, or null. */
export function modelKeyResource(key: ModelKey, provider: string | null): Record<string, unknown> {
  return {
    id: key.id,
    name: key.name,
    provider,
    protocol: key.provider,
    base_url: key.baseUrl,
    owner_supplied: key.ownerSupplied,
    version: key.version,
    rejected: key.rejectedVersion === key.version,
    test: key.test === null ? null : keyTestResource(key.test),
    created_at: key.createdAt.toISOString(),
    revoked_at: key.revokedAt?.toISOString() ?? null,
  };
}
