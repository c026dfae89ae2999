// The environment of a command that a person types: variables that are set are used, the others come from the local servers
// if these run.

import { readTemporalSettings, type Environment } from '../temporal/settings';
import { DEFAULT_DATA_FOLDER, findRunningServices } from '../local/running';

/** Variables that name a Temporal server; TEMPORAL_DATA_CONVERTER and TEMPORAL_CLI_PATH do not. */
const NAMES_A_SERVER = /^TEMPORAL_(ADDRESS|NAMESPACE|API_KEY|TLS|PROFILE|CONFIG_FILE|GRPC_META)/;

/**
 * True if the environment names a Temporal server, by its address or by a profile. The default file of Temporal's CLI does
 * not count: it names the server that the user worked with last.
 * @throws TemporalUnavailable when the named profile or file can't be read
 */
export function namesTemporal(env: Environment): boolean {
  if (env['TEMPORAL_ADDRESS']) return true;
  if (!env['TEMPORAL_PROFILE'] && !env['TEMPORAL_CONFIG_FILE']) return false;
  return readTemporalSettings(env).address !== null;
}

/** The same environment without the variables that name a Temporal server. */
export function withoutTemporal<T>(env: Readonly<Record<string, T>>): Record<string, T> {
  return Object.fromEntries(Object.entries(env).filter(([name]) => !NAMES_A_SERVER.test(name)));
}

/** Completes the environment with the settings of the local servers that run in the data folder. */
export async function toolEnvironment(env: Environment): Promise<Environment> {
  const set = Object.fromEntries(Object.entries(env).filter(([, value]) => value !== undefined && value !== ''));
  const temporal = namesTemporal(env);
  if (temporal && 'DATABASE_URL' in set && 'MASTER_KEYS' in set) return set;
  const running = await findRunningServices(set['DATA_FOLDER'] ?? DEFAULT_DATA_FOLDER);
  return temporal ? { ...withoutTemporal(running), ...set } : { ...running, ...withoutTemporal(set) };
}
