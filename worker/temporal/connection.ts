// Connections of Temporal's clients. A worker's own connection is worker/connections.ts'.

import { Connection, type ConnectionOptions } from '@temporalio/client';
import { explainTemporalFailure, type TemporalUnavailable } from './failure';
import type { TemporalSettings } from './settings';

const CONNECT_WITHIN_MS = 10_000;
const TRY_AGAIN_MS = 250;

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
 * A connection that was tried: the server answers, takes our key, and has the namespace. A server that is not there is
 * waited for, as long as it takes one to start.
 * @throws TemporalUnavailable, which says what is wrong
 */
export async function openConnection(settings: TemporalSettings): Promise<Connection> {
  const until = Date.now() + CONNECT_WITHIN_MS;
  for (;;) {
    const failure = await tryConnecting(settings);
    if (failure === null) break;
    if (failure.needsMending || Date.now() > until) throw failure;
    await new Promise((resolve) => setTimeout(resolve, TRY_AGAIN_MS));
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

/** One call, without the SDK's retries: they would end in a deadline that says nothing of its cause. */
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
