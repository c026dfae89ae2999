// Starts workers in the process of a test. Also exports the names of run-waits.ts.

import { CONTEXT_TOKENS } from '../../activities/context/render';
import { randomBytes } from 'node:crypto';
import { Client, Connection } from '@temporalio/client';
import type { DataConverter, Duration } from '@temporalio/common';
import { NativeConnection, Runtime, Worker } from '@temporalio/worker';
import { createActivities, type ActivityDeps } from '../../activities';
import { heartbeatEveryMs } from '../../activities/call-model';
import { requestReply } from '../../activities/model/provider';
import type { RunTimeouts } from '../../workflows/contract';
import { dispatchOnce } from '../../worker/dispatcher';
import { createLoop } from '../../worker/loop';
import { deliverSignals } from '../../worker/signal-dispatcher';
import { HOLD_EXPIRY_MS, temporalAddress, TEST_TIMEOUTS } from './run-waits';
import { sharedWorkflowBundle } from './workflow-bundle';
import type { World } from './world';

export { closedRun, HOLD_EXPIRY_MS, temporalAddress, TEST_TIMEOUTS, until } from './run-waits';

let quiet = false;

/** Installs the runtime of the SDK without log lines, because tests cause warnings on purpose. Once per process. */
export function quietRuntime(): void {
  if (quiet) return;
  quiet = true;
  Runtime.install({
    shutdownSignals: [],
    logger: { log() {}, trace() {}, debug() {}, info() {}, warn() {}, error() {} },
    telemetryOptions: { logging: { forward: {}, filter: 'ERROR' } },
  });
}

export interface TestWorker {
  readonly client: Client;
  readonly taskQueue: string;
  /** Runs one pass of the dispatcher. */
  dispatch(): Promise<void>;
  /** Runs one pass of the signal dispatcher. */
  signal(): Promise<void>;
  stop(): Promise<void>;
}

/** Starts a worker in this process on a new task queue or the given one, with dispatcher loops unless `dispatch` is false. */
export async function startTestWorker(
  world: Pick<World, 'db' | 'secretBox'>,
  options: {
    timeouts?: Partial<RunTimeouts>;
    taskQueue?: string;
    dispatch?: boolean;
    deps?: Partial<ActivityDeps>;
    identity?: string;
    dataConverter?: DataConverter;
    /** The time after which a task of a cached workflow goes to another worker. Short in tests that change workers. */
    sticky?: Duration;
  } = {},
): Promise<TestWorker> {
  quietRuntime();
  const address = temporalAddress();
  const connection = await Connection.connect({ address });
  const native = await NativeConnection.connect({ address });
  const { dataConverter } = options;
  const converting = dataConverter === undefined ? {} : { dataConverter };
  const client = new Client({
    connection,
    namespace: 'default',
    ...(options.identity === undefined ? {} : { identity: options.identity }),
    ...converting,
  });
  const taskQueue = options.taskQueue ?? `test-${randomBytes(6).toString('hex')}`;
  const failures: unknown[] = [];
  const bundle = await sharedWorkflowBundle(dataConverter);
  const timeouts = { ...TEST_TIMEOUTS, ...options.timeouts };
  const worker = await Worker.create({
    connection: native,
    namespace: 'default',
    taskQueue,
    ...(options.identity === undefined ? {} : { identity: options.identity }),
    workflowBundle: bundle,
    ...converting,
    workerDeploymentOptions: {
      version: { deploymentName: 'durable-room', buildId: bundle.buildId },
      useWorkerVersioning: false,
    },
    activities: createActivities({
      db: world.db,
      secretBox: world.secretBox,
      requestReply,
      timeouts,
      holdExpiryMs: HOLD_EXPIRY_MS,
      allowedModelHosts: [],
      contextTokens: CONTEXT_TOKENS,
      logFailure: ({ activity, error }) => {
        failures.push(error);
        console.error(activity, error);
      },
      ...options.deps,
    }),
    stickyQueueScheduleToStartTimeout: options.sticky ?? '1s',
    // The value of a deployment. The default of the SDK delays heartbeats so long that a late one can miss the time-out.
    maxHeartbeatThrottleInterval: heartbeatEveryMs(timeouts.heartbeatMs),
    shutdownGraceTime: '5s',
  });
  const running = worker.run();
  const starter = new Client({ connection: native, namespace: 'default', ...converting });
  const onStartFailed = (_: unknown, error: unknown): void => console.error(error);
  const dispatch = async (): Promise<boolean> =>
    (await dispatchOnce({ db: world.db, client: starter, eager: true, taskQueue, onStartFailed })).full;
  const loop = createLoop({ runOnce: dispatch, intervalMs: 50, onError: (error) => console.error(error) });
  const signal = async (): Promise<boolean> =>
    (await deliverSignals({ db: world.db, client, onSignalFailed: (_, error) => console.error(error) })).full;
  const signals = createLoop({ runOnce: signal, intervalMs: 50, onError: (error) => console.error(error) });
  if (options.dispatch !== false) {
    loop.start();
    signals.start();
  }
  return {
    client,
    taskQueue,
    dispatch: async () => void (await dispatch()),
    signal: async () => void (await signal()),
    stop: async () => {
      await Promise.all([loop.stop(), signals.stop()]);
      worker.shutdown();
      await running;
      await native.close();
      await connection.close();
    },
  };
}
