// Reseals every stored secret under the first master key. Each batch is independent, so a rotation can be stopped at any
// moment and started again. It may run beside live processes, as long as all of them have the first key too.

import {
  createSecretBox,
  sealedPrefix,
  SecretBoxError,
  type MasterKey,
  type SecretBox,
} from '../workflows/policy/secret-box';
import { countSealed, listSealedOtherwise, replaceSealed, type SealedSecret } from './store/model-keys/key-rotation';
import type { Database } from './store/db/database';

/** Rows locked at once, for as long as one statement takes. */
const BATCH = 100;

export interface RotationOptions {
  readonly log: (line: string) => void;
  readonly batch?: number;
  /** Told after each batch is stored. */
  readonly onBatch?: () => Promise<void>;
}

export interface RotationResult {
  readonly resealed: number;
  /** Secrets not under the first key now: not opened, or put in by a process that still seals with another. */
  readonly remaining: number;
}

/**
 * Reseals, under the first of these keys, every secret that is sealed under another. A secret replaced meanwhile is left
 * alone; a secret that can't be opened is reported with the master key that it needs, and the others are resealed.
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
  log(`${before.all} secrets, ${before.all - before.so} of them not sealed under ${first}`);
  let resealed = 0;
  for (let after = ''; ;) {
    const found = await listSealedOtherwise(db, prefix, after, batch);
    const last = found.at(-1);
    if (last === undefined) break;
    after = last.modelKeyId;
    resealed += await replaceSealed(db, found.flatMap(reseal));
    const { all, so } = await countSealed(db, prefix);
    log(`${resealed} sealed anew, ${all - so} to go`);
    await onBatch();
  }

  const { all, so } = await countSealed(db, prefix);
  for (const { id } of keys.slice(1)) {
    const { so: under } = await countSealed(db, sealedPrefix(id));
    log(
      under === 0
        ? `Nothing is sealed under ${id}: it can be dropped from MASTER_KEYS`
        : `${under} still sealed under ${id}: keep it in MASTER_KEYS`,
    );
  }
  return { resealed, remaining: all - so };
}

function whyUnopened(box: SecretBox, sealed: string, error: SecretBoxError): string {
  try {
    return `master key ${box.keyIdOf(sealed)}: ${error.message}`;
  } catch {
    return error.message;
  }
}
