// Connections of Temporal's clients. A worker's own connection is worker/temporal.ts'.

import { Connection, type ConnectionOptions } from '@temporalio/client';
import { explainTemporalFailure } from './failure';
import type { TemporalSettings } from './settings';

const CONNECT_WITHIN_MS = 10_000;

/** A connection that opens when it is first used, and outlives restarts of the server. */
export function openLazily(settings: TemporalSettings): Connection {
  try {
    return Connection.lazy({ ...clientOptions(settings), connectTimeout: CONNECT_WITHIN_MS });
  } catch (error) {
    // A certificate that is none fails here.
    throw explainTemporalFailure(settings, error);
  }
}

/**
 * A connection that was tried: the server answers, takes our key, and has the namespace.
 * @throws TemporalUnavailable, which says what is wrong
 */
export async function openConnection(settings: TemporalSettings): Promise<Connection> {
  const connection = openLazily(settings);
  try {
    // Asked before the SDK does: it would only say that it was not connected in time, and not why.
    const { workflowService } = connection;
    await connection.withDeadline(Date.now() + CONNECT_WITHIN_MS, () =>
      workflowService.describeNamespace({ namespace: settings.namespace }),
    );
    await connection.ensureConnected();
    return connection;
  } catch (error) {
    await connection.close();
    throw explainTemporalFailure(settings, error);
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
