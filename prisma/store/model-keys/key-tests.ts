// Tests of model keys: one row per key, its newest test. An open row is an outbox entry for the workers; a closed row
// is the result.
//
//   pending ──taken, under a lease──▶ running ──▶ ok | failed
//      └──replaced, revoked──▶ failed ◀──┘
//
// The row of a key is locked before the row of its test.

import { MODEL_REQUESTS_LIMIT, type RefusalCode, type RetryCode } from '../../../workflows/contract';
import type { ModelKeyTest } from '../../generated/client';
import type { ModelProtocol } from '../../../workflows/policy/model-endpoint';
import { WAKES_CHANNEL } from '../rooms/room-draft';
import { Conflict, InvalidInput, NotFound } from '../db/errors';
import { newId } from '../db/ids';
import type { Database } from '../db/database';
import { declareLock, forNoKeyUpdate } from '../db/lock-order';
import type { SqlTx, Tx } from '../db/transaction';

/** The payload of the workers' channel for a pending test. The payload for a wake is empty. */
export const KEY_TEST_NOTIFICATION = 'key_test';

/** The codes of a test that ended without an answer of the provider about the key. */
export const KEY_TEST_CODES = ['replaced', 'revoked', 'suspended', 'cannot_open'] as const;
export type KeyTestCode = RetryCode | RefusalCode | (typeof KEY_TEST_CODES)[number];

/** A test that is leased to the caller, with the sealed key. */
export interface TakenKeyTest {
  readonly id: string;
  readonly attempt: number;
  readonly keyId: string;
  readonly version: number;
  readonly model: string;
  readonly protocol: ModelProtocol;
  readonly baseUrl: string;
  readonly ownerSupplied: boolean;
  readonly sealedSecret: string;
}

export type KeyTestResult =
  | { readonly state: 'ok'; readonly httpStatus: number | null }
  | { readonly state: 'failed'; readonly code: KeyTestCode; readonly httpStatus: number | null };

/**
 * Requests a test of a key with this model, or with the model of an agent that uses the key. Returns the open test if
 * one exists for the same model.
 * @throws NotFound; Conflict when the key was revoked, or is being tested with another model; InvalidInput without a
 * model
 */
export async function requestKeyTest(
  tx: Tx,
  companyId: string,
  modelKeyId: string,
  model: string | undefined,
): Promise<ModelKeyTest> {
  const [key] = await tx.$queryRaw<{ revoked: boolean; version: number }[]>`
    SELECT revoked_at IS NOT NULL AS revoked, version FROM model_keys
    WHERE id = ${modelKeyId} AND company_id = ${companyId} ${forNoKeyUpdate(tx, 'model_key')}`;
  if (!key) throw new NotFound('no such model key');
  if (key.revoked) throw new Conflict('the model key was revoked');
  const wanted = model ?? (await findModel(tx, modelKeyId));
  if (wanted === null) throw new InvalidInput('no agent uses this key, so the test needs a model', '/model');
  declareLock(tx, 'key_test');
  const made = await tx.$executeRaw`
    INSERT INTO model_key_tests AS t (model_key_id, id, model, version)
    VALUES (${modelKeyId}, ${newId('test')}, ${wanted}, ${key.version})
    ON CONFLICT (model_key_id) DO UPDATE SET id = excluded.id, model = excluded.model, version = excluded.version,
      state = 'pending', attempts = 0, code = NULL, http_status = NULL, requested_at = clock_ms(),
      due_at = clock_ms(), tested_at = NULL
    WHERE t.state IN ('ok', 'failed')`;
  const test = await tx.modelKeyTest.findUniqueOrThrow({ where: { modelKeyId } });
  if (made === 0 && test.model !== wanted) throw new Conflict('the key is already being tested with another model');
  if (made === 1) await tx.$queryRaw`SELECT pg_notify(${WAKES_CHANNEL}, ${KEY_TEST_NOTIFICATION})::text`;
  return test;
}

/** The model of the key's oldest agent. Agents that are always on come first. */
async function findModel(tx: SqlTx, modelKeyId: string): Promise<string | null> {
  const [agent] = await tx.$queryRaw<{ model: string }[]>`
    SELECT model FROM agents WHERE model_key_id = ${modelKeyId} AND model IS NOT NULL
    ORDER BY always_on DESC, id LIMIT 1`;
  return agent?.model ?? null;
}

/** Ends the open test of a key, in the transaction that replaced or revoked the key, and after that. */
export async function endOpenKeyTest(tx: SqlTx, modelKeyId: string, code: 'replaced' | 'revoked'): Promise<void> {
  declareLock(tx, 'key_test');
  await tx.$executeRaw`
    UPDATE model_key_tests SET state = 'failed', code = ${code}, tested_at = clock_ms()
    WHERE model_key_id = ${modelKeyId} AND state IN ('pending', 'running')`;
}

/**
 * Leases up to `limit` tests to the caller, each for one request: pending tests, and tests whose lease has expired.
 *
 * Skips tests that another worker holds. A test with as many attempts as its address allows ends as `unknown`, and a
 * test of a suspended company as `suspended`; neither is sent again.
 */
export async function takeKeyTests(db: Database, limit: number, leaseSeconds: number): Promise<TakenKeyTest[]> {
  return db.sqlTransaction(async (tx) => {
    const due = await tx.$queryRaw<(TakenKeyTest & { suspended: boolean })[]>`
      SELECT t.id, t.attempts + 1 AS attempt, k.id AS "keyId", t.version, t.model, k.provider AS protocol, k.base_url AS "baseUrl",
             k.owner_supplied AS "ownerSupplied", k.sealed_secret AS "sealedSecret",
             c.suspended_at IS NOT NULL AS suspended
      FROM model_key_tests t
      JOIN model_keys k ON k.id = t.model_key_id
      JOIN companies c ON c.id = k.company_id
      WHERE t.state IN ('pending', 'running') AND t.due_at <= clock_ms()
      ORDER BY t.due_at LIMIT ${limit}
      ${forNoKeyUpdate(tx, { key_test: 't' })} SKIP LOCKED`;
    if (due.length === 0) return [];
    const verdicts = due.map((test) => ({ key_id: test.keyId, code: codeBeforeRequest(test) }));
    await tx.$executeRaw`
      UPDATE model_key_tests t SET
        state = CASE WHEN x.code IS NULL THEN 'running' ELSE 'failed' END, code = x.code,
        attempts = attempts + CASE WHEN x.code IS NULL THEN 1 ELSE 0 END,
        due_at = clock_ms() + make_interval(secs => ${leaseSeconds}),
        tested_at = CASE WHEN x.code IS NULL THEN NULL ELSE clock_ms() END
      FROM jsonb_to_recordset(${JSON.stringify(verdicts)}::jsonb) AS x(key_id text, code text)
      WHERE t.model_key_id = x.key_id`;
    return due.filter((_, index) => verdicts[index]?.code === null);
  });
}

function codeBeforeRequest(test: TakenKeyTest & { suspended: boolean }): KeyTestCode | null {
  if (test.suspended) return 'suspended';
  // As many requests as a run may send to such an address: a worker that died may have sent its request.
  return test.attempt > (test.ownerSupplied ? 1 : MODEL_REQUESTS_LIMIT) ? 'unknown' : null;
}

/**
 * Records the result of a test, unless its key was replaced or revoked meanwhile, or its lease passed to another
 * worker. A success clears the mark of a rejected key, and a refusal of the key sets it, for the version that was
 * tested.
 */
export async function endKeyTest(db: Database, test: TakenKeyTest, result: KeyTestResult): Promise<void> {
  const code = result.state === 'failed' ? result.code : null;
  await db.sqlTransaction(async (tx) => {
    await tx.$queryRaw`SELECT 1 AS locked FROM model_keys WHERE id = ${test.keyId} ${forNoKeyUpdate(tx, 'model_key')}`;
    declareLock(tx, 'key_test');
    await tx.$executeRaw`
      WITH ended AS (
        UPDATE model_key_tests SET state = ${result.state}, code = ${code}, http_status = ${result.httpStatus}::int,
                                   tested_at = clock_ms()
        WHERE model_key_id = ${test.keyId} AND id = ${test.id} AND state = 'running' AND attempts = ${test.attempt}
        RETURNING version
      )
      UPDATE model_keys k SET rejected_version = CASE WHEN ${result.state === 'ok'} THEN NULL ELSE k.version END
      FROM ended
      WHERE k.id = ${test.keyId} AND k.version = ended.version AND ${result.state === 'ok' || code === 'key_rejected'}`;
  });
}

/** Makes a test due at once for another worker, after its request was aborted. The attempt counts. */
export async function giveUpKeyTest(db: Database, test: TakenKeyTest): Promise<void> {
  await db.sqlTransaction(async (tx) => {
    await tx.$executeRaw`
      UPDATE model_key_tests SET due_at = clock_ms()
      WHERE model_key_id = ${test.keyId} AND id = ${test.id} AND state = 'running' AND attempts = ${test.attempt}`;
  });
}

/** A test as the API shows it. */
export function keyTestResource(test: ModelKeyTest): Record<string, unknown> {
  return {
    id: test.id,
    state: test.state,
    model: test.model,
    version: test.version,
    code: test.code,
    http_status: test.httpStatus,
    requested_at: test.requestedAt.toISOString(),
    tested_at: test.testedAt?.toISOString() ?? null,
  };
}
