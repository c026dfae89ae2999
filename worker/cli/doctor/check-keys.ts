// Checks the master keys and the model keys that are sealed under them. Shows the ids of keys, never a key.

import { createSecretBox, parseMasterKeys, SecretBoxError, type SecretBox } from '../../../workflows/policy/secret-box';
import { listStoredModelKeys, type StoredModelKey } from '../../../prisma/store/reports/inspection';
import type { Database } from '../../../prisma/store/db/database';
import type { Environment } from '../../temporal/settings';
import type { Finding } from './findings';

const area = 'master keys';

/** The secret box of the configured master keys, or a finding that explains why there is none. */
export function openSecretBox(env: Environment): { box: SecretBox | null; finding: Finding } {
  const check = 'usable';
  const configured = env['MASTER_KEYS'];
  const fix = 'set MASTER_KEYS="k1:$(openssl rand -base64 32)", the same for the API and every worker';
  if (!configured) {
    return { box: null, finding: { area, check, state: 'wrong', message: 'MASTER_KEYS is not set', fix } };
  }
  try {
    const keys = parseMasterKeys(configured);
    const ids = keys.map((key) => key.id).join(', ');
    return {
      box: createSecretBox(keys),
      finding: { area, check, state: 'ok', message: `${ids}; the first seals, all of them open` },
    };
  } catch (error) {
    const message = error instanceof SecretBoxError ? error.message : 'they can not be read';
    return { box: null, finding: { area, check, state: 'wrong', message, fix } };
  }
}

/** Checks whether every model key can be opened, and which of them a provider refused. */
export async function checkModelKeys(db: Database, box: SecretBox | null): Promise<Finding[]> {
  const keys = await listStoredModelKeys(db);
  return [...(box === null ? [] : [checkSeals(keys, box)]), checkRejected(keys)];
}

function checkSeals(keys: readonly StoredModelKey[], box: SecretBox): Finding {
  const check = 'open every model key';
  const unopened = keys.flatMap((key) => {
    const reason = reasonUnopened(box, key);
    return reason === null ? [] : [`${key.id} of ${key.companyId}: ${reason}`];
  });
  if (unopened.length === 0) return { area, check, state: 'ok', message: `${keys.length} of ${keys.length}` };
  const message = [`${unopened.length} of ${keys.length} can't be opened:`, ...unopened].join('\n');
  const fix =
    'add the missing master key to MASTER_KEYS again, after the first;\n' +
    'if it is lost, an admin of the company sets the secret again: PATCH /v1/model-keys/{model_key} {"key": "…"}';
  return { area, check, state: 'wrong', message, fix };
}

/** Why the key can't be opened; null if it can. */
function reasonUnopened(box: SecretBox, key: StoredModelKey): string | null {
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

/** Only a note: until the company replaces the key, wakes of its own agents are suppressed; other companies are unaffected. */
function checkRejected(keys: readonly StoredModelKey[]): Finding {
  const rejected = keys.filter((key) => key.rejected);
  const common = { area: 'model keys', check: 'accepted by their providers' } as const;
  if (rejected.length === 0) return { ...common, state: 'ok', message: `none of ${keys.length} was refused` };
  const message = [
    `${rejected.length} of ${keys.length} were refused; the agents that use them are not woken:`,
    ...rejected.map((key) => `${key.id} of ${key.companyId}`),
  ].join('\n');
  const fix = 'an admin of the company sets another secret: PATCH /v1/model-keys/{model_key} {"key": "…"}';
  return { ...common, state: 'note', message, fix };
}
