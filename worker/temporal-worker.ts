// The Temporal worker of a process: polls for workflow and activity tasks. service.ts starts and stops it.

import { Worker, type ActivityInterceptorsFactory, type WorkerOptions } from '@temporalio/worker';
import type { Activities } from '../activities';
import { heartbeatEveryMs } from '../activities/call-model';
import type { WorkflowBundle } from './bundle';
import type { WorkerConfig } from './config';
import type { Temporal } from './connections';

/**
 * After this long without its own worker, the next task of a workflow goes to any worker. It is the delay of a run after a
 * SIGKILL, of which the SDK's default of 10 s would be the longest part.
 */
const STICKY_TIMEOUT = '2s';

export interface TemporalWorkerParts {
  readonly config: WorkerConfig;
  readonly temporal: Temporal;
  readonly bundle: WorkflowBundle;
  readonly activities: Activities;
  /** The first is the outermost. */
  readonly interceptors: ActivityInterceptorsFactory[];
  readonly sinks: WorkerOptions['sinks'];
}

/** Creates the worker and connects it. It polls nothing before `run()`. */
export async function createTemporalWorker(parts: TemporalWorkerParts): Promise<Worker> {
  const { config, temporal, bundle, activities, interceptors, sinks } = parts;
  return Worker.create({
    connection: temporal.native,
    namespace: temporal.namespace,
    taskQueue: config.taskQueue,
    workflowBundle: bundle,
    workerDeploymentOptions: deploymentOf(config.versioning, bundle),
    activities,
    interceptors: { activity: interceptors },
    ...(temporal.dataConverter === undefined ? {} : { dataConverter: temporal.dataConverter }),
    ...(sinks === undefined ? {} : { sinks }),
    shutdownGraceTime: config.shutdownGraceMs,
    maxCachedWorkflows: config.maxCachedRuns,
    maxConcurrentActivityTaskExecutions: config.maxActivities,
    maxConcurrentWorkflowTaskPolls: config.pollers,
    maxConcurrentActivityTaskPolls: config.pollers,
    stickyQueueScheduleToStartTimeout: STICKY_TIMEOUT,
    // Sends every heartbeat of a model call. A cancellation comes with the answer to a heartbeat, and the SDK would hold
    // heartbeats back for 80 % of the time-out: a cancelled request would run on for 8 s and be paid for.
    maxHeartbeatThrottleInterval: heartbeatEveryMs(config.timeouts.heartbeatMs),
  });
}

/**
 * AUTO_UPGRADE: the next task of a run goes to the current version, so an old version can be stopped at once, however long
 * its runs take. The recorded histories prove that runs replay on newer code.
 */
function deploymentOf({ on, deployment, buildId }: WorkerConfig['versioning'], bundle: WorkflowBundle) {
  const version = { deploymentName: deployment, buildId: buildId ?? bundle.buildId };
  return on
    ? ({ version, useWorkerVersioning: true, defaultVersioningBehavior: 'AUTO_UPGRADE' } as const)
    : ({ version, useWorkerVersioning: false } as const);
}
