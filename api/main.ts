// The API as a process: reads the environment, connects, listens, and stops on a signal. It does not migrate the database.

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
import { createStreams, STREAM_SETTINGS } from './middleware/event-streams';

/** Most bytes of a request's URL and headers: a cursor of a company's feed holds a position for each room. */
const HEAD_LIMIT_BYTES = 65_536;

/**
 * How long an idle connection stays open. Longer than the 60 s after which load balancers usually close one, so that no
 * request goes to a connection that the API closes at that moment. Node's default is 5 s.
 */
const KEEP_ALIVE_MS = 75_000;

/** How long requests in progress may take to finish after a stop. */
const STOP_WITHIN_MS = 10_000;

async function main(): Promise<void> {
  const config = readApiConfig(process.env);
  // The log goes to stderr, because stdout is only for the operator key, which is printed once.
  const log = pino({ level: config.logLevel, base: { process: 'api' } }, pino.destination(2));
  const histories = await createHistories(process.env);
  const tracing = config.tracing ? loadTracing().startTracing('durable-room-api') : undefined;
  const database = await connectDatabase(config.databaseUrl, { ...config, applicationName: 'durable-room api' });
  const db = database;
  const operatorKey = await ensureOperatorKey(db, config.operatorKey);

  const metrics = config.metricsPort === undefined ? undefined : createApiMetrics();
  const streams = createStreams(
    {
      db,
      databaseUrl: config.databaseUrl,
      onLost: (reason) =>
        log.warn({ reason }, 'the listener for room notifications lost its connection; the streams poll meanwhile'),
    },
    { ...STREAM_SETTINGS, streamsPerKey: config.streamsPerKey },
  );
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
  const server = createServer({ maxHeaderSize: HEAD_LIMIT_BYTES, keepAliveTimeout: KEEP_ALIVE_MS }, app);
  const port = await listen(server, config.port, config.host);
  const metricsServer = metrics?.serve();
  if (metricsServer && config.metricsPort !== undefined) await listen(metricsServer, config.metricsPort, config.host);

  let stopping: Promise<void> | undefined;
  const stopAll = async (): Promise<void> => {
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
  // The channel closes when the supervisor dies; this process must not outlive it.
  process.on('disconnect', stopAndExit);

  log.info({ host: config.host, port }, 'the API is listening');
  // With a supervisor, the supervisor gets the key and prints it; without one, this process prints it.
  if (operatorKey !== null && process.send === undefined) {
    process.stdout.write(`Operator key, shown this once: ${operatorKey}\n`);
  }
  process.send?.({ type: 'ready', port, ...(operatorKey !== null && { operatorKey }) });
}

/** The reader of histories for timelines. It connects at the first request, so the API runs without Temporal. */
async function createHistories(env: NodeJS.ProcessEnv): Promise<RunHistories> {
  const settings = readTemporalSettings(env);
  const converter = await readDataConverter(env);
  return settings.address === null ? NO_HISTORIES : openHistories(settings, converter);
}

/** Loaded only when spans are wanted: OpenTelemetry's SDK takes half a second to load. */
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

/** Accepts no more connections, waits for requests in progress, then closes the connections that are left. */
async function finish(server: Server): Promise<void> {
  const closed = new Promise<void>((resolve) => server.close(() => resolve()));
  // A kept-alive connection becomes idle after the answer to its last request.
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
