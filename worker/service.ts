// One worker process: the Temporal worker, its dispatchers, a reconciler, a key tester and a reader of files, started and
// stopped together.

import type { Logger } from 'pino';
import { Worker, type WorkerOptions } from '@temporalio/worker';
import { createActivities, type Activities, type ActivityDeps } from '../activities';
import { heartbeatEveryMs } from '../activities/call-model';
import { requestReply } from '../activities/model/provider';
import { listenTo } from '../prisma/channel-listener';
import { WAKES_CHANNEL } from '../prisma/store/rooms/room-draft';
import { connectDatabase } from '../prisma/client';
import { createSecretBox } from '../workflows/policy/secret-box';
import { KEY_TEST_HINT } from '../prisma/store/model-keys/key-tests';
import { SIGNALS_HINT } from '../prisma/store/runs/signals';
import { oldestWaits } from '../prisma/store/runs/wakes';
import { loadWorkflowBundle, type WorkflowBundle } from './bundle';
import { databaseTimeouts, type WorkerConfig } from './config';
import { createAcknowledger, dispatchOnce } from './dispatcher';
import { readFileOnce } from './file-loop';
import { startHealthServer, type HealthReport } from './health';
import { createKeyTester } from './key-tester';
import { createLoop } from './loop';
import { createWorkerMetrics } from './metrics';
import { executionIds, logRuns } from './run-log';
import { createParkedSweep } from './parked-sweep';
import { RECONCILER_TIMES, reconcileOnce, type ReconcilerDeps } from './reconciler';
import { requireSearchAttributes } from './temporal/search-attributes';
import { deliverSignals, type SendSignal } from './signal-dispatcher';
import type { Temporal } from './connections';
import type { WorkerTracing } from './worker-tracing';

/** A wake older than this, unstarted or unclaimed, is a health warning long before it is lost. */
const OLD_WAKE_SECONDS = 30;

/**
 * After this long without its own worker, a workflow's next task goes to any other: what a SIGKILL costs a run. The SDK's
 * 10 s would be its longest part.
 */
const STICKY_TIMEOUT = '2s';

export interface WorkerService {
  readonly healthPort: number;
  /** Rejects when the Temporal worker fails. */
  readonly running: Promise<void>;
  /** Stops taking work, lets what is under way finish within the grace, and closes everything. Idempotent. */
  stop(): Promise<void>;
}

/** Where a test may stand between the parts. Production passes none. */
export interface Seams {
  readonly deps?: (deps: ActivityDeps) => ActivityDeps;
  readonly activities?: (activities: Activities) => Activities;
  readonly sendSignal?: SendSignal;
  readonly bundle?: WorkflowBundle;
  readonly sinks?: WorkerOptions['sinks'];
}

/**
 * AUTO_UPGRADE: a run's next task goes to the current version, so that an old one can be stopped at once, however long its
 * runs are. They replay there, which the recorded histories prove.
 */
function deploymentOf({ on, deployment, buildId }: WorkerConfig['versioning'], bundle: WorkflowBundle) {
  const version = { deploymentName: deployment, buildId: buildId ?? bundle.buildId };
  return on
    ? ({ version, useWorkerVersioning: true, defaultVersioningBehavior: 'AUTO_UPGRADE' } as const)
    : ({ version, useWorkerVersioning: false } as const);
}

/** Starts a worker process's parts. @throws Error when Postgres, Temporal or the search attributes are not there */
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
  const db = database.prisma;
  const metrics = createWorkerMetrics(db);
  const deps: ActivityDeps = {
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
  const used = seams.deps?.(deps) ?? deps;
  const activities = logRuns(metrics.countActivities(createActivities(used)), log);
  const { dataConverter } = temporal;
  const bundle = seams.bundle ?? (await loadWorkflowBundle(dataConverter, tracing !== undefined));
  const worker = await Worker.create({
    connection: temporal.native,
    namespace: temporal.namespace,
    taskQueue: config.taskQueue,
    workflowBundle: bundle,
    workerDeploymentOptions: deploymentOf(config.versioning, bundle),
    activities: seams.activities?.(activities) ?? activities,
    ...(dataConverter === undefined ? {} : { dataConverter }),
    ...tracing?.worker,
    ...(seams.sinks === undefined ? {} : { sinks: seams.sinks }),
    shutdownGraceTime: config.shutdownGraceMs,
    maxCachedWorkflows: config.maxCachedRuns,
    maxConcurrentActivityTaskExecutions: config.maxActivities,
    maxConcurrentWorkflowTaskPolls: config.pollers,
    maxConcurrentActivityTaskPolls: config.pollers,
    stickyQueueScheduleToStartTimeout: STICKY_TIMEOUT,
    // Every beat of a model call is sent. A cancellation comes back as the answer to one, and the SDK would hold them back
    // for 80 % of the time-out: a request nobody wants any more would go on for 8 s and be paid for.
    maxHeartbeatThrottleInterval: heartbeatEveryMs(config.timeouts.heartbeatMs),
  });
  const starter = tracing?.traceClient(temporal.starter, temporal.native) ?? temporal.starter;
  const acknowledger = createAcknowledger(db, (error) => log.warn({ err: error }, 'starts are not noted; they repeat'));
  const dispatcher = createLoop({
    intervalMs: config.dispatchPollMs,
    onError: (error) => log.error({ err: error }, 'dispatcher pass failed'),
    runOnce: async () => {
      const pass = await dispatchOnce({
        db,
        client: starter,
        // An eager start would give the run to this worker, whether or not its version is the current one.
        eager: !config.versioning.on,
        taskQueue: config.taskQueue,
        companyLimit: config.companyLimit,
        acknowledged: acknowledger.take,
        onStartFailed: (wake, error) => log.warn({ wake: wake.id, err: error }, 'start failed; it is repeated'),
      });
      metrics.dispatched(pass);
      if (pass.started > 0) log.debug({ started: pass.started }, 'wakes started');
      return pass.full;
    },
  });
  const signals = createLoop({
    intervalMs: config.dispatchPollMs,
    onError: (error) => log.error({ err: error }, 'signal pass failed'),
    runOnce: async () => {
      const onSignalFailed = (signal: { runId: string }, error: unknown): void =>
        log.warn({ run: signal.runId, err: error }, 'signal failed; it is repeated');
      return (await deliverSignals({ db, client: temporal.client, onSignalFailed }, seams.sendSignal)).full;
    },
  });
  const reconcilerDeps: ReconcilerDeps = {
    db,
    client: temporal.client,
    taskQueue: config.taskQueue,
    timeLimitMs: config.timeouts.limitMs,
    times: RECONCILER_TIMES,
    onAction: (action, ids) => log.warn(ids, action),
  };
  const reconciler = createLoop({
    intervalMs: config.reconcileMs,
    onError: (error) => log.error({ err: error }, 'reconciler pass failed'),
    runOnce: async () => {
      await reconcileOnce(reconcilerDeps);
      return false;
    },
  });
  const parked = createParkedSweep(reconcilerDeps);
  const parkedSweep = createLoop({
    intervalMs: config.reconcileMs,
    onError: (error) => log.error({ err: error }, 'sweep of parked runs failed'),
    runOnce: async () => {
      await parked.runOnce();
      return false;
    },
  });
  const stoppingFiles = new AbortController();
  const files = createLoop({
    intervalMs: config.filePollMs,
    onError: (error) => log.error({ err: error }, 'reading a file failed'),
    runOnce: () =>
      readFileOnce({
        db,
        signal: stoppingFiles.signal,
        onUnreadable: (file, code) => log.info({ file, code }, 'a file is unreadable'),
      }),
  });
  const keyTester = createKeyTester({
    ...used,
    // A stand-in may know of activities only.
    db,
    onUnopened: (key, error) => log.error({ key, err: error }, 'a model key could not be opened for its test'),
    onError: (error) => log.error({ err: error }, 'key tester pass failed'),
  });
  const listener = listenTo(
    config.databaseUrl,
    WAKES_CHANNEL,
    (hint) => {
      // Null: some may have been missed.
      if (hint === null || hint === KEY_TEST_HINT) keyTester.nudge();
      if (hint === null || hint === SIGNALS_HINT) signals.nudge();
      if (hint !== KEY_TEST_HINT && hint !== SIGNALS_HINT) dispatcher.nudge();
    },
    (reason) => log.warn({ reason }, 'wake listener lost its connection; the poll carries on'),
  );

  const report = async (): Promise<HealthReport> => {
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
        dispatched_at: dispatcher.lastSuccessAt,
        signalled_at: signals.lastSuccessAt,
        reconciled_at: reconciler.lastSuccessAt,
      },
    };
  };
  const health = await startHealthServer(config.health, report, metrics.registry);
  const running = worker.run();
  dispatcher.start();
  signals.start();
  keyTester.start();
  reconciler.start();
  parkedSweep.start();
  files.start();

  let stopping: Promise<void> | undefined;
  const stop = async (): Promise<void> => {
    await listener.stop();
    // A file half read is read again; its process is not waited for.
    stoppingFiles.abort();
    const loops = [dispatcher, signals, reconciler, parkedSweep, files, keyTester];
    await Promise.all(loops.map((loop) => loop.stop()));
    await acknowledger.flush();
    if (worker.getState() === 'RUNNING') worker.shutdown();
    await running.catch(() => undefined);
    await health.stop();
    metrics.stop();
    await database.close();
  };
  return { healthPort: health.port, running, stop: () => (stopping ??= stop()) };
}
