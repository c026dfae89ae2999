// What went wrong between us and Temporal's server, in words for whoever runs the deployment, and without a key in them.

import { isGrpcServiceError } from '@temporalio/client';
import type { TemporalSettings } from './settings';
import { TemporalUnavailable } from './unavailable';

export { TemporalUnavailable } from './unavailable';

/** gRPC's own numbers. */
const NOT_FOUND = 5;
const REFUSED = new Set([7, 16]);

const TLS_WORDS = /certificate|self-signed|SSL|TLS|EPROTO|wrong version number|handshake|altname|CaUsed|UnknownIssuer/i;

/** Why a call to this Temporal failed. The error itself is not attached: parts of the SDK quote headers. */
export function explainTemporalFailure(settings: TemporalSettings, error: unknown): TemporalUnavailable {
  if (error instanceof TemporalUnavailable) return error;
  const at = `Temporal at ${settings.address ?? '127.0.0.1:7233'}`;
  const said = withoutSecrets(settings, saidBy(error));
  const code = grpcCodeOf(error);
  if (code !== undefined && REFUSED.has(code)) {
    const what = settings.hasApiKey
      ? 'refused the API key, or the key may not use the namespace'
      : 'asks who we are, and no API key is set (TEMPORAL_API_KEY, or api_key in the profile)';
    return new TemporalUnavailable(`${at} ${what}; namespace "${settings.namespace}": ${said}`);
  }
  if (code === NOT_FOUND && /namespace/i.test(said)) {
    return new TemporalUnavailable(
      `${at} has no namespace "${settings.namespace}" (not found). Name another in TEMPORAL_NAMESPACE, or make it with:\n` +
        `  temporal operator namespace create --namespace ${settings.namespace} --retention 30d`,
    );
  }
  if (TLS_WORDS.test(said)) {
    const how = settings.hasTls
      ? 'check TEMPORAL_TLS_SERVER_CA_CERT_PATH, TEMPORAL_TLS_SERVER_NAME and the client certificate'
      : 'it seems to want TLS: set TEMPORAL_TLS=true, or a certificate (TEMPORAL_TLS_…)';
    return new TemporalUnavailable(`${at} can't be trusted, or does not trust us (${how}): ${said}`);
  }
  return new TemporalUnavailable(`${at} can't be reached: ${said}`, false);
}

/** An error and what caused it, outermost first. */
function* chainOf(error: unknown): Generator<object> {
  for (let at = error; typeof at === 'object' && at !== null; at = 'cause' in at ? at.cause : null) yield at;
}

function grpcCodeOf(error: unknown): number | undefined {
  for (const each of chainOf(error)) if (isGrpcServiceError(each)) return each.code;
  return undefined;
}

function saidBy(error: unknown): string {
  const texts: string[] = [];
  for (const each of chainOf(error)) {
    const text = 'message' in each ? String(each.message) : '';
    if (text !== '' && !texts.some((said) => said.includes(text))) texts.push(text);
  }
  return texts.length === 0 ? String(error) : texts.join(': ');
}

function withoutSecrets(settings: TemporalSettings, text: string): string {
  const { apiKey, metadata } = settings.options;
  const secrets = [apiKey, ...Object.values(metadata ?? {})].filter(
    (secret): secret is string => typeof secret === 'string' && secret !== '',
  );
  return secrets.reduce((cleaned, secret) => cleaned.replaceAll(secret, '…'), text);
}
