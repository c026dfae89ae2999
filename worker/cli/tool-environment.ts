// The environment of a command that somebody types: what is set is used, and what is not is taken from the embedded
// services, when they run.

import { readTemporalSettings, type Environment } from '../temporal/settings';
import { DEFAULT_DATA_FOLDER, findRunningServices } from '../local/running';

/** Whatever names a Temporal server; TEMPORAL_DATA_CONVERTER and TEMPORAL_CLI_PATH do not. */
const NAMES_A_SERVER = /^TEMPORAL_(ADDRESS|NAMESPACE|API_KEY|TLS|PROFILE|CONFIG_FILE|GRPC_META)/;

/**
 * True where the environment names a Temporal server: by its address, or by a profile. A file that Temporal's CLI keeps
 * for itself does not count: it names the server that its owner worked with last.
 * @throws TemporalUnavailable when what it names can't be read
 */
export function namesTemporal(env: Environment): boolean {
  if (env['TEMPORAL_ADDRESS']) return true;
  if (!env['TEMPORAL_PROFILE'] && !env['TEMPORAL_CONFIG_FILE']) return false;
  return readTemporalSettings(env).address !== null;
}

/** The same environment without anything that names a Temporal server. */
export function withoutTemporal<T>(env: Readonly<Record<string, T>>): Record<string, T> {
  return Object.fromEntries(Object.entries(env).filter(([name]) => !NAMES_A_SERVER.test(name)));
}

/** Fills in what is not set from the services that run in the data folder. */
export async function toolEnvironment(env: Environment): Promise<Environment> {
  const set = Object.fromEntries(Object.entries(env).filter(([, value]) => value !== undefined && value !== ''));
  const temporal = namesTemporal(env);
  if (temporal && 'DATABASE_URL' in set && 'MASTER_KEYS' in set) return set;
  const running = await findRunningServices(set['DATA_FOLDER'] ?? DEFAULT_DATA_FOLDER);
  return temporal ? { ...withoutTemporal(running), ...set } : { ...running, ...withoutTemporal(set) };
}
