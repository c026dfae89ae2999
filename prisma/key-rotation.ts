// Reseals every stored secret under the first master key. Each batch is one transaction, so a rotation may be stopped
// and started again at any time. It may run beside other processes if all of them have the first key too.

import {
  createSecretBox,
  sealedPrefix,
  SecretBoxError,
  type MasterKey,
  type SecretBox,
} from '../workflows/policy/secret-box';
import {
  countSealed,
  listSealedUnderOtherKeys,
  replaceSealed,
  type SealedSecret,
} from './store/model-keys/key-rotation';
import type { Database } from './store/db/database';

/** Rows that one statement locks. */
const BATCH = 100;

export interface RotationOptions {
  readonly log: (line: string) => void;
  readonly batch?: number;
  /** Called after each stored batch. */
  readonly onBatch?: () => Promise<void>;
}

export interface RotationResult {
  readonly resealed: number;
  /** Secrets that are not under the first key: not opened, or added by a process that still seals with another key. */
  readonly remaining: number;
}

/**
 * Reseals every secret under the first of these keys. A secret that was replaced meanwhile stays. A secret that cannot
 * be opened is logged with the id of its master key, and the rotation continues.
 */
export async function rotateMasterKeys(
  db: Database,
  keys: readonly MasterKey[],
  { log, batch = BATCH, onBatch = async () => undefined }: RotationOptions,
): Promise<RotationResult> {
  const box = createSecretBox(keys);
  const first = keys[0]?.id ?? '';
  const prefix = sealedPrefix(first);

  const reseal = (secret: SealedSecret): { modelKeyId: string; was: string; now: string }[] => {
    try {
      const now = box.seal(box.open(secret.sealed, secret.boundTo), secret.boundTo);
      return [{ modelKeyId: secret.modelKeyId, was: secret.sealed, now }];
    } catch (error) {
      if (!(error instanceof SecretBoxError)) throw error;
      log(`${secret.modelKeyId} could not be opened (${whyUnopened(box, secret.sealed, error)})`);
      return [];
    }
  };

  const before = await countSealed(db, prefix);
  log(`${before.all} secrets, ${before.all - before.matching} of them not sealed under ${first}`);
  let resealed = 0;
  for (let after = ''; ;) {
    const found = await listSealedUnderOtherKeys(db, prefix, after, batch);
    const last = found.at(-1);
    if (last === undefined) break;
    after = last.modelKeyId;
    resealed += await replaceSealed(db, found.flatMap(reseal));
    const { all, matching } = await countSealed(db, prefix);
    log(`${resealed} resealed, ${all - matching} to go`);
    await onBatch();
  }

  const { all, matching } = await countSealed(db, prefix);
  for (const { id } of keys.slice(1)) {
    const { matching: under } = await countSealed(db, sealedPrefix(id));
    log(
      under === 0
        ? `Nothing is sealed under ${id}: it can be dropped from MASTER_KEYS`
        : `${under} still sealed under ${id}: keep it in MASTER_KEYS`,
    );
  }
  return { resealed, remaining: all - matching };
}

function whyUnopened(box: SecretBox, sealed: string, error: SecretBoxError): string {
  try {
    return `master key ${box.keyIdOf(sealed)}: ${error.message}`;
  } catch {
    return error.message;
  }
}
