// Looks at the master keys and at what is sealed under them. Names keys by their ids, and never shows one.

import { createSecretBox, parseMasterKeys, SecretBoxError, type SecretBox } from '../../../workflows/policy/secret-box';
import { listStoredModelKeys, type StoredModelKey } from '../../../prisma/store/reports/inspection';
import type { Database } from '../../../prisma/store/db/database';
import type { Environment } from '../../temporal/settings';
import type { Finding } from './findings';

const area = 'master keys';

/** The box that these master keys make, or why there is none. */
export function openSecretBox(env: Environment): { box: SecretBox | null; finding: Finding } {
  const check = 'usable';
  const configured = env['MASTER_KEYS'];
  const mend = 'set MASTER_KEYS="k1:$(openssl rand -base64 32)", the same for the API and every worker';
  if (!configured) {
    return { box: null, finding: { area, check, state: 'wrong', says: 'MASTER_KEYS is not set', mend } };
  }
  try {
    const keys = parseMasterKeys(configured);
    const ids = keys.map((key) => key.id).join(', ');
    return {
      box: createSecretBox(keys),
      finding: { area, check, state: 'ok', says: `${ids}; the first seals, every one opens` },
    };
  } catch (error) {
    const says = error instanceof SecretBoxError ? error.message : 'they can not be read';
    return { box: null, finding: { area, check, state: 'wrong', says, mend } };
  }
}

/** Whether every model key can be opened, and which a provider refuses. */
export async function checkModelKeys(db: Database, box: SecretBox | null): Promise<Finding[]> {
  const keys = await listStoredModelKeys(db);
  return [...(box === null ? [] : [checkSeals(keys, box)]), checkRejected(keys)];
}

function checkSeals(keys: readonly StoredModelKey[], box: SecretBox): Finding {
  const check = 'open every model key';
  const closed = keys.flatMap((key) => {
    const why = whyClosed(box, key);
    return why === null ? [] : [`${key.id} of ${key.companyId}: ${why}`];
  });
  if (closed.length === 0) return { area, check, state: 'ok', says: `${keys.length} of ${keys.length}` };
  const says = [`${closed.length} of ${keys.length} can't be opened:`, ...closed].join('\n');
  const mend =
    'put the master key that is missing back into MASTER_KEYS, behind the first;\n' +
    'where it is lost, an admin of the company gives the secret again: PATCH /v1/model-keys/{model_key} {"key": "…"}';
  return { area, check, state: 'wrong', says, mend };
}

function whyClosed(box: SecretBox, key: StoredModelKey): string | null {
  try {
    box.open(key.sealedSecret, key.binding);
    return null;
  } catch (error) {
    if (!(error instanceof SecretBoxError)) throw error;
    return `${error.message} (master key "${keyIdOf(box, key)}")`;
  }
}

function keyIdOf(box: SecretBox, key: StoredModelKey): string {
  try {
    return box.keyIdOf(key.sealedSecret);
  } catch {
    return 'unreadable';
  }
}

/** A company's own affair: its agents' wakes are suppressed until it acts, and nobody else is the worse for it. */
function checkRejected(keys: readonly StoredModelKey[]): Finding {
  const rejected = keys.filter((key) => key.rejected);
  const common = { area: 'model keys', check: 'accepted by their providers' } as const;
  if (rejected.length === 0) return { ...common, state: 'ok', says: `none of ${keys.length} was refused` };
  const says = [
    `${rejected.length} of ${keys.length} were refused, and wake nobody:`,
    ...rejected.map((key) => `${key.id} of ${key.companyId}`),
  ].join('\n');
  const mend = 'an admin of the company gives another secret: PATCH /v1/model-keys/{model_key} {"key": "…"}';
  return { ...common, state: 'note', says, mend };
}
