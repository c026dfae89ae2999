// The door as a process: reads the environment, connects, listens, and stops when told. It does not migrate.

import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import pino from 'pino';
import { connectDatabase } from '../prisma/client';
import { createSecretBox } from '../workflows/policy/secret-box';
import { ensureOperatorKey } from '../prisma/store/access/keys';
import { readDataConverter } from '../worker/temporal/data-converter';
import { NO_HISTORIES, openHistories, type RunHistories } from '../worker/temporal/histories';
import { readTemporalSettings } from '../worker/temporal/settings';
import { createApp } from './app';
import { readApiConfig } from './config';
import { createApiMetrics } from './metrics';
import { startHousekeeping } from './housekeeping';
import { createStreams, STREAM_SETTINGS } from './middleware/event-streams';

/** A cursor of a company's feed names its place in each room. */
const HEAD_LIMIT_BYTES = 65_536;

/** How long requests that are under way have to finish. */
const STOP_WITHIN_MS = 10_000;

async function main(): Promise<void> {
  const config = readApiConfig(process.env);
  // The log goes to stderr: stdout is for the operator's key, once.
  const log = pino({ level: config.logLevel, base: { process: 'api' } }, pino.destination(2));
  const histories = await historiesOf(process.env);
  const tracing = config.tracing ? loadTracing().startTracing('durable-room-api') : undefined;
  const database = await connectDatabase(config.databaseUrl, { ...config, applicationName: 'durable-room api' });
  const db = database;
  const operatorKey = await ensureOperatorKey(db, config.operatorKey);

  const metrics = config.metricsPort === undefined ? undefined : createApiMetrics();
  const streams = createStreams(
    {
      db,
      databaseUrl: config.databaseUrl,
      onLost: (reason) => log.warn({ reason }, 'the room listener lost its connection; the streams look without it'),
    },
    { ...STREAM_SETTINGS, streamsPerKey: config.streamsPerKey },
  );
  const housekeeping = startHousekeeping(db, (error) => log.warn({ err: error }, 'old answers were not purged'));
  const app = createApp({
    db,
    streams,
    requestsPerMinute: config.requestsPerMinute,
    secretBox: createSecretBox(config.masterKeys),
    providers: config.providers,
    allowedModelHosts: config.allowedModelHosts,
    fileLimitBytes: config.fileLimitBytes,
    searchLimitMs: config.searchLimitMs,
    prices: config.prices,
    log,
    histories,
    tracing: config.tracing,
    ...(metrics && { onRequest: metrics.onRequest }),
    ...(config.temporalUiUrl !== undefined && {
      temporalUi: { url: config.temporalUiUrl, namespace: readTemporalSettings(process.env).namespace },
    }),
  });
  const server = createServer({ maxHeaderSize: HEAD_LIMIT_BYTES }, app);
  const port = await listen(server, config.port, config.host);
  const metricsServer = metrics?.serve();
  if (metricsServer && config.metricsPort !== undefined) await listen(metricsServer, config.metricsPort, config.host);

  let stopping: Promise<void> | undefined;
  const stopAll = async (): Promise<void> => {
    housekeeping.stop();
    await Promise.all([streams.close(), finish(server)]);
    metricsServer?.close().closeAllConnections();
    await histories.close();
    await database.close();
    await tracing?.stop();
  };
  const stop = (): Promise<void> => (stopping ??= stopAll());
  const stopAndExit = (): void => {
    stop().then(
      () => process.exit(0),
      (error: unknown) => {
        log.error({ err: error }, 'stopping failed');
        process.exit(1);
      },
    );
  };
  process.on('SIGTERM', stopAndExit);
  process.on('SIGINT', stopAndExit);
  // A supervisor that died took the channel with it: do not outlive it.
  process.on('disconnect', stopAndExit);

  log.info({ host: config.host, port }, 'the API is listening');
  // A supervisor is handed the key and shows it; by itself, the process does.
  if (operatorKey !== null && process.send === undefined) {
    process.stdout.write(`Operator key, shown this once: ${operatorKey}\n`);
  }
  process.send?.({ type: 'ready', port, ...(operatorKey !== null && { operatorKey }) });
}

/** For the timelines of runs. Opens when the first is asked for: the door stands without Temporal. */
async function historiesOf(env: NodeJS.ProcessEnv): Promise<RunHistories> {
  const settings = readTemporalSettings(env);
  const converter = await readDataConverter(env);
  return settings.address === null ? NO_HISTORIES : openHistories(settings, converter);
}

/** With it comes OpenTelemetry's SDK, half a second of loading that only those pay who want spans. */
function loadTracing(): typeof import('../worker/telemetry/tracing') {
  return require('../worker/telemetry/tracing') as typeof import('../worker/telemetry/tracing');
}

function listen(server: Server, port: number, host: string): Promise<number> {
  return new Promise((resolve, reject) => {
    server.once('error', reject);
    server.listen(port, host, () => {
      server.off('error', reject);
      resolve((server.address() as AddressInfo).port);
    });
  });
}

/** Stops accepting, lets requests under way finish for a while, then cuts what is left. */
async function finish(server: Server): Promise<void> {
  const closed = new Promise<void>((resolve) => server.close(() => resolve()));
  // A kept-alive connection that was busy just now is idle after its answer.
  const idle = setInterval(() => server.closeIdleConnections(), 100);
  const cut = setTimeout(() => server.closeAllConnections(), STOP_WITHIN_MS);
  await closed;
  clearInterval(idle);
  clearTimeout(cut);
}

main().catch((error: unknown) => {
  console.error(error instanceof Error ? error.message : error);
  process.exit(1);
});
