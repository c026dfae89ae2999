// The parts of one worker process, started and stopped together: the Temporal worker, the loops of loops.ts, the listener for
// notifications and the health server.

import type { Logger } from 'pino';
import type { Worker, WorkerOptions } from '@temporalio/worker';
import { createActivities, type Activities, type ActivityDeps } from '../activities';
import { requestReply } from '../activities/model/provider';
import { listenTo } from '../prisma/channel-listener';
import { WAKES_CHANNEL } from '../prisma/store/rooms/room-draft';
import { connectDatabase } from '../prisma/client';
import type { Database } from '../prisma/store/db/database';
import { createSecretBox } from '../workflows/policy/secret-box';
import { oldestWaits } from '../prisma/store/runs/wakes';
import { loadWorkflowBundle, type WorkflowBundle } from './bundle';
import { databaseTimeouts, type WorkerConfig } from './config';
import { startHealthServer, type HealthReport } from './health';
import { createWorkerLoops, type WorkerLoops, type WorkerLoopsDeps } from './loops';
import { createWorkerMetrics, type WorkerMetrics } from './metrics';
import { executionIds, logActivity } from './run-log';
import { requireSearchAttributes } from './temporal/search-attributes';
import { createTemporalWorker } from './temporal-worker';
import type { Temporal } from './connections';
import type { WorkerTracing } from './worker-tracing';

/** A wake that waits longer than this for its start or its claim is a health warning, long before it counts as lost. */
const OLD_WAKE_SECONDS = 30;

export interface WorkerService {
  readonly healthPort: number;
  /** Rejects when the Temporal worker fails. */
  readonly running: Promise<void>;
  /** Takes no new work, lets current work finish within the grace period, then closes everything. Idempotent. */
  stop(): Promise<void>;
}

/** What tests replace or observe. Production passes none. */
export interface Seams extends Pick<WorkerLoopsDeps, 'sendSignal' | 'onPass'> {
  readonly deps?: (deps: ActivityDeps) => ActivityDeps;
  readonly activities?: (activities: Activities) => Activities;
  readonly bundle?: WorkflowBundle;
  readonly sinks?: WorkerOptions['sinks'];
}

/** Starts the parts of a worker process. @throws Error when Postgres, Temporal or the search attributes are missing */
export async function startWorkerService(
  config: WorkerConfig,
  temporal: Temporal,
  log: Logger,
  seams: Seams = {},
  tracing?: WorkerTracing,
): Promise<WorkerService> {
  await requireSearchAttributes(temporal);
  const database = await connectDatabase(config.databaseUrl, {
    poolSize: config.poolSize,
    applicationName: 'durable-room-worker',
    ...databaseTimeouts(config.timeouts.stepMs),
  });
  const db = database;
  const metrics = createWorkerMetrics(db);
  const given = activityDeps(config, db, log, metrics);
  const deps = seams.deps?.(given) ?? given;
  const activities = createActivities(deps);
  const worker = await createTemporalWorker({
    config,
    temporal,
    bundle: seams.bundle ?? (await loadWorkflowBundle(temporal.dataConverter, tracing !== undefined)),
    activities: seams.activities?.(activities) ?? activities,
    interceptors: [...(tracing ? [tracing.traceActivity] : []), logActivity(log), metrics.countActivity],
    sinks: seams.sinks ?? tracing?.sinks,
  });
  const loops = createWorkerLoops({
    config,
    // Not deps.db: a test may replace it for the activities.
    db,
    client: temporal.client,
    starter: tracing?.traceClient(temporal.starter, temporal.native) ?? temporal.starter,
    keyTest: deps,
    log,
    onDispatched: (pass) => metrics.countDispatched(pass),
    sendSignal: seams.sendSignal,
    onPass: seams.onPass,
  });
  const listener = listenTo(
    config.databaseUrl,
    WAKES_CHANNEL,
    (notification) => loops.triggerFor(notification),
    (reason) => log.warn({ reason }, 'the listener for notifications lost its connection; the loops poll meanwhile'),
  );
  const health = await startHealthServer(config.health, () => reportHealth(db, worker, loops), metrics.registry);
  const running = worker.run();
  loops.start();

  let stopping: Promise<void> | undefined;
  const stop = async (): Promise<void> => {
    await listener.stop();
    await loops.stop();
    if (worker.getState() === 'RUNNING') worker.shutdown();
    await running.catch(() => undefined);
    await health.stop();
    metrics.stop();
    await database.close();
  };
  return { healthPort: health.port, running, stop: () => (stopping ??= stop()) };
}

function activityDeps(config: WorkerConfig, db: Database, log: Logger, metrics: WorkerMetrics): ActivityDeps {
  return {
    db,
    secretBox: createSecretBox(config.masterKeys),
    requestReply: metrics.countRequests(requestReply),
    timeouts: config.timeouts,
    holdExpiryMs: config.holdExpiryMs,
    allowedModelHosts: config.allowedModelHosts,
    contextTokens: config.contextTokens,
    logFailure: ({ activity, run, error }) =>
      log.error({ activity, run, ...executionIds(), err: error }, 'activity failed'),
    onClaim: (ids) => log.info({ ...ids, ...executionIds() }, 'run claimed'),
  };
}

async function reportHealth(db: Database, worker: Worker, { byName }: WorkerLoops): Promise<HealthReport> {
  const waits = await oldestWaits(db);
  const state = worker.getState();
  const warnings: string[] = [];
  if ((waits.pendingSeconds ?? 0) > OLD_WAKE_SECONDS) warnings.push('a wake has waited long for its start');
  if ((waits.unclaimedSeconds ?? 0) > OLD_WAKE_SECONDS) warnings.push('a wake has waited long for its claim');
  return {
    ready: state === 'RUNNING',
    warnings,
    details: {
      worker: state,
      oldest_pending_wake_seconds: waits.pendingSeconds,
      oldest_unclaimed_wake_seconds: waits.unclaimedSeconds,
      dispatched_at: byName.dispatcher.lastSuccessAt,
      signalled_at: byName.signals.lastSuccessAt,
      reconciled_at: byName.reconciler.lastSuccessAt,
    },
  };
}
