// Explains failures of calls to Temporal to the operator of the deployment. No message holds a key.

import { isGrpcServiceError } from '@temporalio/client';
import type { TemporalSettings } from './settings';
import { TemporalUnavailable } from './unavailable';

export { TemporalUnavailable } from './unavailable';

/** gRPC status codes. */
const NOT_FOUND = 5;
const REFUSED = new Set([7, 16]);

const TLS_WORDS = /certificate|self-signed|SSL|TLS|EPROTO|wrong version number|handshake|altname|CaUsed|UnknownIssuer/i;

/** Explains why a call to this Temporal server failed. The error is not attached: some errors of the SDK quote headers. */
export function explainTemporalFailure(settings: TemporalSettings, error: unknown): TemporalUnavailable {
  if (error instanceof TemporalUnavailable) return error;
  const at = `Temporal at ${settings.address ?? '127.0.0.1:7233'}`;
  const reason = withoutSecrets(settings, messagesOf(error));
  const code = grpcCodeOf(error);
  if (code !== undefined && REFUSED.has(code)) {
    const what = settings.hasApiKey
      ? 'refused the API key, or the key may not use the namespace'
      : 'requires an API key, and none is set (TEMPORAL_API_KEY, or api_key in the profile)';
    return new TemporalUnavailable(`${at} ${what}; namespace "${settings.namespace}": ${reason}`);
  }
  if (code === NOT_FOUND && /namespace/i.test(reason)) {
    return new TemporalUnavailable(
      `${at} has no namespace "${settings.namespace}" (not found). Set another one in TEMPORAL_NAMESPACE, or create it with:\n` +
        `  temporal operator namespace create --namespace ${settings.namespace} --retention 30d`,
    );
  }
  if (TLS_WORDS.test(reason)) {
    const how = settings.hasTls
      ? 'check TEMPORAL_TLS_SERVER_CA_CERT_PATH, TEMPORAL_TLS_SERVER_NAME and the client certificate'
      : 'the server seems to require TLS: set TEMPORAL_TLS=true, or a certificate (TEMPORAL_TLS_…)';
    return new TemporalUnavailable(`${at} can't be trusted, or does not trust us (${how}): ${reason}`);
  }
  return new TemporalUnavailable(`${at} can't be reached: ${reason}`, false);
}

/** An error and its causes, outermost first. */
function* chainOf(error: unknown): Generator<object> {
  for (let at = error; typeof at === 'object' && at !== null; at = 'cause' in at ? at.cause : null) yield at;
}

function grpcCodeOf(error: unknown): number | undefined {
  for (const each of chainOf(error)) if (isGrpcServiceError(each)) return each.code;
  return undefined;
}

/** The different messages of an error and its causes. */
function messagesOf(error: unknown): string {
  const texts: string[] = [];
  for (const each of chainOf(error)) {
    const text = 'message' in each ? String(each.message) : '';
    if (text !== '' && !texts.some((known) => known.includes(text))) texts.push(text);
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
