// API keys, which identify callers. A key is stored as the SHA-256 of a random token, which is shown once and not
// stored.

import { createHash, randomBytes } from 'node:crypto';
import { Prisma, type ApiKey } from '../../generated/client';
import { Conflict, NotFound } from '../db/errors';
import { newId } from '../db/ids';
import { byId, pageOf, type Page, type PageRequest } from '../db/paging';
import type { Database } from '../db/database';
import { forNoKeyUpdate } from '../db/lock-order';
import type { Reader, Tx } from '../db/transaction';

export type PersonRole = 'admin' | 'member';

/** The holder of a key. The keys of a suspended company keep their holder. */
export type KeyHolder =
  | { readonly kind: 'operator'; readonly keyId: string }
  | ({ readonly kind: 'person'; readonly role: PersonRole } & CompanyKey)
  | ({ readonly kind: 'service' } & CompanyKey)
  | ({ readonly kind: 'agent'; readonly agentId: string; readonly agentName: string } & CompanyKey);

interface CompanyKey {
  readonly keyId: string;
  readonly name: string;
  readonly companyId: string;
  readonly companySuspended: boolean;
}

export type KeyToCreate = { readonly name: string; readonly companyId: string } & (
  | { readonly kind: 'person'; readonly role: PersonRole }
  | { readonly kind: 'service' }
  | { readonly kind: 'agent'; readonly agentId: string }
);

/** As many bytes as the hash, so that neither is easier to guess. */
const TOKEN_BYTES = 32;

/** The advisory lock for creating the operator's key, so that only one of several starting processes creates it. */
const OPERATOR_KEY_LOCK = 7306082713414559n;

function makeToken(kind: ApiKey['kind']): string {
  return `dr_${kind}_${randomBytes(TOKEN_BYTES).toString('base64url')}`;
}

function hashToken(token: string): Buffer {
  return createHash('sha256').update(token, 'utf8').digest();
}

/** A condition on a key `k`: neither revoked nor expired. */
export const IS_LIVE = Prisma.sql`(k.revoked_at IS NULL AND (k.expires_at IS NULL OR k.expires_at > clock_ms()))`;

/** The holder of this token, or null when its key does not exist, was revoked, or has expired. One statement. */
export async function findKeyHolder(reader: Reader, token: string): Promise<KeyHolder | null> {
  const [row] = await reader.$queryRaw<
    {
      keyId: string;
      kind: KeyHolder['kind'];
      role: PersonRole;
      name: string;
      companyId: string;
      companySuspended: boolean;
      agentId: string;
      agentName: string;
    }[]
  >`
    SELECT k.id AS "keyId", k.kind, k.role, k.name, k.company_id AS "companyId", k.agent_id AS "agentId",
           a.name AS "agentName", c.suspended_at IS NOT NULL AS "companySuspended"
    FROM api_keys k
    LEFT JOIN companies c ON c.id = k.company_id
    LEFT JOIN agents a ON a.id = k.agent_id
    WHERE k.token_hash = ${hashToken(token)} AND ${IS_LIVE}`;
  if (!row) return null;
  const { kind, keyId, name, companyId, companySuspended } = row;
  const key = { keyId, name, companyId, companySuspended };
  switch (kind) {
    case 'operator':
      return { kind, keyId };
    case 'person':
      return { kind, role: row.role, ...key };
    case 'service':
      return { kind, ...key };
    case 'agent':
      return { kind, agentId: row.agentId, agentName: row.agentName, ...key };
  }
}

/**
 * Creates a key and returns its token, which is not available later.
 * @throws NotFound when the key's agent does not belong to this company
 */
export async function createKey(tx: Tx, key: KeyToCreate): Promise<{ key: ApiKey; token: string }> {
  const agentId = key.kind === 'agent' ? key.agentId : null;
  if (agentId !== null) {
    const agent = await tx.agent.findUnique({ where: { id: agentId, companyId: key.companyId } });
    if (!agent) throw new NotFound('no such agent');
  }
  const id = newId('key');
  const token = makeToken(key.kind);
  const role = key.kind === 'person' ? key.role : null;
  await tx.$executeRaw`
    INSERT INTO api_keys (id, kind, role, company_id, agent_id, name, token_hash)
    VALUES (${id}, ${key.kind}, ${role}, ${key.companyId}, ${agentId}, ${key.name}, ${hashToken(token)})`;
  return { key: await tx.apiKey.findUniqueOrThrow({ where: { id } }), token };
}

/** A company's keys, including revoked ones. */
export async function listKeys(reader: Reader, companyId: string, page: PageRequest): Promise<Page<ApiKey>> {
  const { where, ...rest } = byId(page);
  return pageOf(await reader.apiKey.findMany({ where: { ...where, companyId }, ...rest }), page, (key) => key.id);
}

/**
 * Creates a new key for the holder of a key, which expires after the overlap. Returns the new token, which is not
 * available later.
 * @throws NotFound; Conflict when the old key was revoked or rotated before
 */
export async function rotateKey(
  tx: Tx,
  companyId: string,
  keyId: string,
  overlapSeconds: number,
): Promise<{ key: ApiKey; token: string; replaced: ApiKey }> {
  await lockCompany(tx, companyId);
  const old = await tx.apiKey.findUnique({ where: { id: keyId, companyId } });
  if (!old) throw new NotFound('no such key');
  if (old.revokedAt !== null) throw new Conflict('the key was revoked');
  if (old.expiresAt !== null) throw new Conflict('the key was already rotated; rotate its replacement');
  await tx.$executeRaw`
    UPDATE api_keys SET expires_at = clock_ms() + make_interval(secs => ${overlapSeconds}) WHERE id = ${keyId}`;
  const replaced = await tx.apiKey.findUniqueOrThrow({ where: { id: keyId } });
  return { ...(await createKey(tx, holderOf(old, companyId))), replaced };
}

function holderOf({ kind, role, agentId, name }: ApiKey, companyId: string): KeyToCreate {
  if (kind === 'person' && (role === 'admin' || role === 'member')) return { kind, role, name, companyId };
  if (kind === 'agent' && agentId !== null) return { kind, agentId, name, companyId };
  if (kind === 'service') return { kind, name, companyId };
  throw new Error('a key of no company');
}

/** If two admins revoke each other's key at the same time, the second transaction sees the result of the first. */
async function lockCompany(tx: Tx, companyId: string): Promise<void> {
  await tx.$queryRaw`SELECT id FROM companies WHERE id = ${companyId} ${forNoKeyUpdate(tx, 'company')}`;
}

/**
 * Revokes a key permanently. False when it was revoked before; then nothing changes.
 * @throws NotFound; Conflict for the company's last admin key, because only an admin can create another
 */
export async function revokeKey(tx: Tx, companyId: string, keyId: string): Promise<boolean> {
  await lockCompany(tx, companyId);
  const key = await tx.apiKey.findUnique({ where: { id: keyId, companyId } });
  if (!key) throw new NotFound('no such key');
  if (key.revokedAt !== null) return false;
  if (key.role === 'admin') {
    // A key that expires does not count.
    const lasting = { companyId, role: 'admin', revokedAt: null, expiresAt: null, id: { not: keyId } };
    const others = await tx.apiKey.count({ where: lasting });
    if (others === 0) throw new Conflict("the company's last admin key can't be revoked");
  }
  await tx.$executeRaw`UPDATE api_keys SET revoked_at = clock_ms() WHERE id = ${keyId}`;
  return true;
}

/**
 * Ensures that the operator has a key. A `configured` key becomes the only one; without it, a key is created if none is
 * live. Returns the token of a created key, which is not available later. Idempotent, also in several processes at
 * once.
 */
export async function ensureOperatorKey(db: Database, configured: string | undefined): Promise<string | null> {
  return db.transaction(async (tx) => {
    await tx.$queryRaw`SELECT pg_advisory_xact_lock(${OPERATOR_KEY_LOCK}::bigint)::text`;
    if (configured === undefined) {
      const live = await tx.apiKey.count({ where: { kind: 'operator', revokedAt: null } });
      if (live > 0) return null;
    }
    const token = configured ?? makeToken('operator');
    const hash = hashToken(token);
    await tx.$executeRaw`
      UPDATE api_keys SET revoked_at = clock_ms()
      WHERE kind = 'operator' AND revoked_at IS NULL AND token_hash <> ${hash}`;
    const kept = await tx.$executeRaw`
      INSERT INTO api_keys (id, kind, name, token_hash) VALUES (${newId('key')}, 'operator', 'operator', ${hash})
      ON CONFLICT (token_hash) DO UPDATE SET revoked_at = NULL WHERE api_keys.kind = 'operator'`;
    if (kept === 0) throw new Error("the configured operator key is a company's key");
    return configured === undefined ? token : null;
  });
}

/** A key as the API shows it, without its token and hash. */
export function keyResource(key: ApiKey): Record<string, unknown> {
  return {
    id: key.id,
    kind: key.kind,
    role: key.role,
    agent: key.agentId,
    name: key.name,
    company: key.companyId,
    created_at: key.createdAt.toISOString(),
    revoked_at: key.revokedAt?.toISOString() ?? null,
    expires_at: key.expiresAt?.toISOString() ?? null,
  };
}
