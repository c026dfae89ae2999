// The connection to Temporal, as Temporal's own tools read it: environment variables, profiles, TLS, API key.

import { loadClientConnectConfig } from '@temporalio/envconfig';
import { Client, Connection } from '@temporalio/client';
import { NativeConnection } from '@temporalio/worker';
import { SEARCH_ATTRIBUTES } from '../workflows/search-attributes';

export interface Temporal {
  readonly client: Client;
  /** Over the worker's own connection: what it starts, its worker may be handed in the answer. */
  readonly starter: Client;
  /** The worker's own connection. */
  readonly native: NativeConnection;
  readonly namespace: string;
  close(): Promise<void>;
}

/** Connects a client and a worker to the Temporal that the environment names. */
export async function connectTemporal(env: Record<string, string>): Promise<Temporal> {
  const config = loadClientConnectConfig({ overrideEnvVars: env });
  const namespace = config.namespace ?? 'default';
  const connection = await Connection.connect({ ...clientOptions(config.connectionOptions), connectTimeout: '10s' });
  const native = await NativeConnection.connect(config.connectionOptions);
  return {
    client: new Client({ connection, namespace }),
    starter: new Client({ connection: native, namespace }),
    native,
    namespace,
    close: async () => {
      await native.close();
      await connection.close();
    },
  };
}

type NativeOptions = ReturnType<typeof loadClientConnectConfig>['connectionOptions'];

function clientOptions(options: NativeOptions) {
  const { address, tls, apiKey, metadata } = options;
  return {
    ...(address === undefined ? {} : { address }),
    ...(tls === undefined ? {} : { tls }),
    ...(apiKey === undefined ? {} : { apiKey }),
    ...(metadata === undefined ? {} : { metadata }),
  };
}

/**
 * Checks that the namespace has the search attributes of a run: without them every start would fail.
 * @throws Error that names those missing and the command that adds them
 */
export async function requireSearchAttributes(temporal: Pick<Temporal, 'client' | 'namespace'>): Promise<void> {
  const { client, namespace } = temporal;
  const { customAttributes } = await client.connection.operatorService.listSearchAttributes({ namespace });
  const missing = SEARCH_ATTRIBUTES.filter((name) => !(name in (customAttributes ?? {})));
  if (missing.length === 0) return;
  const flags = missing.map((name) => `--name ${name} --type Keyword`).join(' ');
  throw new Error(
    `Namespace "${namespace}" lacks the search attributes ${missing.join(', ')}. Add them with:\n` +
      `  temporal operator search-attribute create --namespace ${namespace} ${flags}`,
  );
}
