// The life of a worker process: reads the environment, starts the service, and stops it on SIGTERM, on SIGINT, or when its
// supervisor is gone.

import pino from 'pino';
import { DefaultLogger, makeTelemetryFilterString, Runtime } from '@temporalio/worker';
import { readWorkerConfig } from './config';
import { startWorkerService, type Seams } from './service';
import { connectTemporal } from './connections';
import type { WorkerTracing } from './worker-tracing';

/** Runs a worker process until a stop signal. Exits with 0, or with 1 if the worker failed. */
export async function runWorkerProcess(
  environment: Record<string, string | undefined>,
  seams: Seams = {},
): Promise<void> {
  const config = readWorkerConfig(environment);
  const log = pino({ level: config.logLevel, base: { process: 'worker' } });
  Runtime.install({
    // The service stops in its own order: loops, then the worker, then the database.
    shutdownSignals: [],
    logger: new DefaultLogger('WARN', ({ level, message, meta }) =>
      log[level === 'ERROR' ? 'error' : 'warn']({ sdk: meta }, message),
    ),
    // The SDK's core writes to the same log.
    telemetryOptions: {
      logging: { forward: {}, filter: makeTelemetryFilterString({ core: 'WARN', other: 'ERROR' }) },
      // Metrics of the SDK's core: pollers, slots, cache and latencies.
      ...(config.sdkMetricsAddress === undefined
        ? {}
        : { metrics: { prometheus: { bindAddress: config.sdkMetricsAddress, countersTotalSuffix: true } } }),
    },
  });
  const temporal = await connectTemporal(environment);
  const tracing = config.tracing ? loadTracing() : undefined;
  const service = await startWorkerService(config, temporal, log, seams, tracing);
  log.info({ queue: config.taskQueue, port: service.healthPort }, 'worker is running');
  process.send?.({ type: 'ready', port: service.healthPort });

  let stopping = false;
  const stop = (code: number): void => {
    if (stopping) return;
    stopping = true;
    void service
      .stop()
      .then(() => temporal.close())
      .then(() => tracing?.stop())
      .catch((error: unknown) => log.error({ err: error }, 'stopping failed'))
      .finally(() => process.exit(code));
  };
  process.on('SIGTERM', () => stop(0));
  process.on('SIGINT', () => stop(0));
  process.on('disconnect', () => stop(0));
  service.running.catch((error: unknown) => {
    log.fatal({ err: error }, 'the worker failed');
    stop(1);
  });
}

/** Loaded only when spans are wanted: OpenTelemetry's SDK takes half a second to load. */
function loadTracing(): WorkerTracing {
  const { startWorkerTracing } = require('./worker-tracing') as typeof import('./worker-tracing');
  return startWorkerTracing();
}
