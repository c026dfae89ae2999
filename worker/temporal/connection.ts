// Connections for Temporal clients. worker/connections.ts makes the connection that a worker polls through.

import { Connection, type ConnectionOptions } from '@temporalio/client';
import { explainTemporalFailure, type TemporalUnavailable } from './failure';
import type { TemporalSettings } from './settings';

const CONNECT_WITHIN_MS = 10_000;
const RETRY_MS = 250;

/** A connection that opens at its first use and reconnects after a restart of the server. */
export function openLazily(settings: TemporalSettings): Connection {
  try {
    return Connection.lazy({ ...clientOptions(settings), connectTimeout: CONNECT_WITHIN_MS });
  } catch (error) {
    // An invalid certificate fails here.
    throw explainTemporalFailure(settings, error);
  }
}

/**
 * A tested connection: the server answers, accepts our key, and has the namespace. Waits 10 s for a server that does not
 * answer, because it may be starting.
 * @throws TemporalUnavailable that explains the failure
 */
export async function openConnection(settings: TemporalSettings): Promise<Connection> {
  const until = Date.now() + CONNECT_WITHIN_MS;
  for (;;) {
    const failure = await tryConnecting(settings);
    if (failure === null) break;
    if (failure.needsFix || Date.now() > until) throw failure;
    await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
  }
  const connection = openLazily(settings);
  try {
    await connection.ensureConnected();
    return connection;
  } catch (error) {
    await connection.close();
    throw explainTemporalFailure(settings, error);
  }
}

/** One call without the SDK's retries, which would end in a deadline error that hides the cause. */
async function tryConnecting(settings: TemporalSettings): Promise<TemporalUnavailable | null> {
  let probe: Connection | undefined;
  try {
    probe = Connection.lazy({ ...clientOptions(settings), interceptors: [] });
    const { workflowService } = probe;
    await probe.withDeadline(Date.now() + CONNECT_WITHIN_MS, () =>
      workflowService.describeNamespace({ namespace: settings.namespace }),
    );
    return null;
  } catch (error) {
    return explainTemporalFailure(settings, error);
  } finally {
    await probe?.close();
  }
}

function clientOptions({ options }: TemporalSettings): ConnectionOptions {
  const { address, tls, apiKey, metadata } = options;
  return {
    ...(address === undefined ? {} : { address }),
    ...(tls === undefined ? {} : { tls }),
    ...(apiKey === undefined ? {} : { apiKey }),
    ...(metadata === undefined ? {} : { metadata }),
  };
}
