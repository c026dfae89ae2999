// Which Temporal, and how to reach it: environment variables, profiles, TLS and API key, read as Temporal's own tools read
// them. Errors name what is wrong and where it stands, and never a key.

import { existsSync } from 'node:fs';
import { loadClientConnectConfig, type ClientConnectConfig } from '@temporalio/envconfig';
import { TemporalUnavailable } from './unavailable';

export type Environment = Readonly<Record<string, string | undefined>>;

export interface TemporalSettings {
  /** Null: none is named, and the SDK would try 127.0.0.1:7233. */
  readonly address: string | null;
  readonly namespace: string;
  readonly hasApiKey: boolean;
  readonly hasTls: boolean;
  readonly options: ClientConnectConfig['connectionOptions'];
}

/**
 * Reads TEMPORAL_ADDRESS, TEMPORAL_NAMESPACE, TEMPORAL_API_KEY, TEMPORAL_TLS_*, TEMPORAL_GRPC_META_*, and the profile that
 * TEMPORAL_PROFILE names in TEMPORAL_CONFIG_FILE or in the file where Temporal's CLI keeps its own.
 * @throws TemporalUnavailable that names the variable or the file
 */
export function readTemporalSettings(env: Environment): TemporalSettings {
  // Set to nothing is not set, as a shell's `VAR= command` and a compose file's `VAR:` mean it.
  const set = Object.fromEntries(Object.entries(env).filter((pair): pair is [string, string] => !!pair[1]));
  const file = set['TEMPORAL_CONFIG_FILE'];
  if (file !== undefined && !existsSync(file)) {
    throw new TemporalUnavailable(`TEMPORAL_CONFIG_FILE names ${file}, and there is no such file`);
  }
  refuseHalfAPair(set);
  const { connectionOptions, namespace } = load(set);
  const { apiKey, address, tls } = connectionOptions;
  // The SDK would say what is wrong with it by quoting it.
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
  // A certificate or a key by its path.
  if (typeof path === 'string') {
    return `${path}, which Temporal's configuration names, can't be read (${String(code)})`;
  }
  // What a parser says of a line quotes the line, and the line may be the API key's.
  const where = typeof line === 'number' ? `, line ${line}` : '';
  return `${file}${where} can't be read as TOML with a table [profile.${profile ?? 'default'}]`;
}

/** The SDK leaves such a pair out without a word, and the server then says that a certificate is required. */
function refuseHalfAPair(set: Record<string, string>): void {
  const given = (name: string): boolean => `TEMPORAL_TLS_${name}_PATH` in set || `TEMPORAL_TLS_${name}_DATA` in set;
  if (given('CLIENT_CERT') === given('CLIENT_KEY') || usesProfile(set)) return;
  throw new TemporalUnavailable(
    'TEMPORAL_TLS_CLIENT_CERT_… and TEMPORAL_TLS_CLIENT_KEY_… belong together: one is missing',
  );
}

function usesProfile(set: Record<string, string>): boolean {
  return 'TEMPORAL_PROFILE' in set || 'TEMPORAL_CONFIG_FILE' in set;
}
