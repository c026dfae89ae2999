// A worker process. Reads the environment, starts the service, stops it on SIGTERM or SIGINT.

import pino from 'pino';
import { DefaultLogger, Runtime } from '@temporalio/worker';
import { readWorkerConfig } from './config';
import { startWorkerService } from './service';
import { connectTemporal } from './temporal';

async function main(): Promise<void> {
  const config = readWorkerConfig(process.env);
  const log = pino({ level: config.logLevel, base: { process: 'worker' } });
  Runtime.install({
    // We stop in our own order: no new wakes, then the worker, then the database.
    shutdownSignals: [],
    logger: new DefaultLogger('WARN', ({ level, message, meta }) =>
      log[level === 'ERROR' ? 'error' : 'warn']({ sdk: meta }, message),
    ),
  });
  const env = Object.fromEntries(Object.entries(process.env).filter((pair): pair is [string, string] => !!pair[1]));
  const temporal = await connectTemporal(env);
  const service = await startWorkerService(config, temporal, log);
  log.info({ queue: config.taskQueue, port: service.healthPort }, 'worker is running');
  process.send?.({ type: 'ready', port: service.healthPort });

  let stopping = false;
  const stop = (code: number): void => {
    if (stopping) return;
    stopping = true;
    void service
      .stop()
      .then(() => temporal.close())
      .catch((error: unknown) => log.error({ err: error }, 'stopping failed'))
      .finally(() => process.exit(code));
  };
  process.on('SIGTERM', () => stop(0));
  process.on('SIGINT', () => stop(0));
  // A supervisor that died took the channel with it: do not outlive it.
  process.on('disconnect', () => stop(0));
  service.running.catch((error: unknown) => {
    log.fatal({ err: error }, 'the worker failed');
    stop(1);
  });
}

main().catch((error: unknown) => {
  console.error(error instanceof Error ? error.message : error);
  process.exit(1);
});
