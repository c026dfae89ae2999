// Settings of the Temporal server: environment variables, profiles, TLS and API key, with the same rules as Temporal's own
// tools. Errors name the variable or file that is wrong, never a key.

import { existsSync } from 'node:fs';
import { loadClientConnectConfig, type ClientConnectConfig } from '@temporalio/envconfig';
import { TemporalUnavailable } from './unavailable';

export type Environment = Readonly<Record<string, string | undefined>>;

export interface TemporalSettings {
  /** Null if none is set; the SDK would then try 127.0.0.1:7233. */
  readonly address: string | null;
  readonly namespace: string;
  readonly hasApiKey: boolean;
  readonly hasTls: boolean;
  readonly options: ClientConnectConfig['connectionOptions'];
}

/**
 * Reads TEMPORAL_ADDRESS, TEMPORAL_NAMESPACE, TEMPORAL_API_KEY, TEMPORAL_TLS_*, TEMPORAL_GRPC_META_*, and the profile that
 * TEMPORAL_PROFILE names in TEMPORAL_CONFIG_FILE or in the default file of Temporal's CLI.
 * @throws TemporalUnavailable that names the variable or the file
 */
export function readTemporalSettings(env: Environment): TemporalSettings {
  // An empty variable counts as not set: `VAR= command` in a shell and `VAR:` in a compose file produce one.
  const set = Object.fromEntries(Object.entries(env).filter((pair): pair is [string, string] => !!pair[1]));
  const file = set['TEMPORAL_CONFIG_FILE'];
  if (file !== undefined && !existsSync(file)) {
    throw new TemporalUnavailable(`TEMPORAL_CONFIG_FILE names ${file}, and there is no such file`);
  }
  refuseIncompletePair(set);
  const { connectionOptions, namespace } = load(set);
  const { apiKey, address, tls } = connectionOptions;
  // Checked here, because the SDK's error message would quote the key.
  if (typeof apiKey === 'string' && !/^[\x21-\x7e]+$/.test(apiKey)) {
    throw new TemporalUnavailable(
      'The Temporal API key holds a space, a line break or another character that no header can carry',
    );
  }
  return {
    address: address ?? null,
    namespace: namespace ?? 'default',
    hasApiKey: apiKey !== undefined,
    hasTls: tls !== undefined && tls !== false && tls !== null,
    options: Object.fromEntries(Object.entries(connectionOptions).filter(([, value]) => value !== undefined)),
  };
}

function load(set: Record<string, string>): ClientConnectConfig {
  try {
    return loadClientConnectConfig({ overrideEnvVars: set });
  } catch (error) {
    throw new TemporalUnavailable(explainLoading(error, set));
  }
}

function explainLoading(error: unknown, set: Record<string, string>): string {
  const file = set['TEMPORAL_CONFIG_FILE'] ?? "Temporal's own configuration file";
  const profile = set['TEMPORAL_PROFILE'];
  const { message, path, code, line } = error as Partial<Record<'message' | 'path' | 'code' | 'line', unknown>>;
  if (profile !== undefined && String(message).startsWith(`Profile '${profile}' not found`)) {
    return `TEMPORAL_PROFILE is "${profile}", and ${file} has no such profile`;
  }
  // The path of a certificate or key.
  if (typeof path === 'string') {
    return `${path}, which Temporal's configuration names, can't be read (${String(code)})`;
  }
  // The parser's message quotes the line, which may hold the API key.
  const where = typeof line === 'number' ? `, line ${line}` : '';
  return `${file}${where} can't be read as TOML with a table [profile.${profile ?? 'default'}]`;
}

/** The SDK silently ignores a certificate without its key, and the server then reports a missing certificate. */
function refuseIncompletePair(set: Record<string, string>): void {
  const given = (name: string): boolean => `TEMPORAL_TLS_${name}_PATH` in set || `TEMPORAL_TLS_${name}_DATA` in set;
  if (given('CLIENT_CERT') === given('CLIENT_KEY') || usesProfile(set)) return;
  throw new TemporalUnavailable(
    'TEMPORAL_TLS_CLIENT_CERT_… and TEMPORAL_TLS_CLIENT_KEY_… must be set together: one is missing',
  );
}

function usesProfile(set: Record<string, string>): boolean {
  return 'TEMPORAL_PROFILE' in set || 'TEMPORAL_CONFIG_FILE' in set;
}
