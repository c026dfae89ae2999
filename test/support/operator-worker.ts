// Starts a worker in this process, on the Temporal server of the test's choice. A test can hold, fail or replace its
// activities, and run single passes of the dispatcher and the reconciler.

import { CONTEXT_TOKENS } from '../../activities/context/render';
import { randomBytes } from 'node:crypto';
import { ApplicationFailure, Context } from '@temporalio/activity';
import { Client, Connection } from '@temporalio/client';
import { NativeConnection, Worker } from '@temporalio/worker';
import { createActivities, type Activities, type ActivityDeps } from '../../activities';
import { heartbeatEveryMs } from '../../activities/call-model';
import { requestReply } from '../../activities/model/provider';
import type { SecretBox } from '../../workflows/policy/secret-box';
import type { Database } from '../../prisma/store/db/database';
import { FAILURE } from '../../workflows/contract';
import { loadWorkflowBundle } from '../../worker/bundle';
import { dispatchOnce, type DispatchPass } from '../../worker/dispatcher';
import { ofRuns, reconcileOnce, type ReconcilePass } from '../../worker/reconciler';
import { HOLD_EXPIRY_MS, quietRuntime, temporalAddress, TEST_TIMEOUTS, until } from './runs';

export type ActivityName = keyof Activities;
export type HoldPosition = 'before' | 'after';

/** A held attempt of an activity: before its work, or after its COMMIT and before Temporal has the result. */
export interface HeldAttempt {
  /** Resolves when an attempt is held here. */
  readonly reached: Promise<void>;
  /** Resolves when that attempt has ended in any way. */
  readonly over: Promise<void>;
  /** Releases the attempt. */
  resume(): void;
  /** Fails the attempt as if its answer were lost. Temporal may retry it. */
  fail(): void;
}

export interface OperatorWorker {
  readonly client: Client;
  readonly taskQueue: string;
  /** The number of started attempts of an activity in the runs of this agent. */
  attempts(agentId: string, activity: ActivityName): number;
  /** Holds the next attempt of this activity for this agent. */
  holdAttempt(agentId: string, activity: ActivityName, position: HoldPosition): HeldAttempt;
  /** Runs one pass of the dispatcher. */
  dispatch(): Promise<DispatchPass>;
  /** Makes every wake and run due, and runs one pass of the reconciler without its waiting times. */
  reconcile(): Promise<ReconcilePass>;
  /** Resolves when no execution of this queue is listed as running. An execution ends shortly after its run. */
  untilNoneOpen(): Promise<void>;
  /** Fails every held attempt and stops the worker. */
  stop(): Promise<void>;
}

export interface OperatorWorkerOptions {
  readonly address?: string;
  readonly taskQueue?: string;
  /** Instead of the fenced activities. */
  readonly replace?: (activities: Activities, deps: ActivityDeps) => Activities;
}

/** The reconciler has no waiting times. */
const TIMES = {
  recheckSeconds: 0,
  unclaimedLimitSeconds: 3_600,
  pastLimitMs: 600_000,
  executionLimitSeconds: 3_600,
  orphanGraceSeconds: 0,
};

/** Long enough that nothing times out during the actions of an operator on a busy machine. */
const TIMEOUTS = { ...TEST_TIMEOUTS, limitMs: 120_000, stepMs: 60_000, modelMs: 60_000, heartbeatMs: 5_000 };

export async function startOperatorWorker(
  world: { readonly db: Database; readonly secretBox: SecretBox },
  options: OperatorWorkerOptions = {},
): Promise<OperatorWorker> {
  quietRuntime();
  const { db } = world;
  const address = options.address ?? temporalAddress();
  const connection = await Connection.connect({ address });
  const native = await NativeConnection.connect({ address });
  const client = new Client({ connection, namespace: 'default' });
  const taskQueue = options.taskQueue ?? `operator-${randomBytes(6).toString('hex')}`;
  const deps: ActivityDeps = {
    db,
    secretBox: world.secretBox,
    requestReply,
    timeouts: TIMEOUTS,
    holdExpiryMs: HOLD_EXPIRY_MS,
    allowedModelHosts: [],
    contextTokens: CONTEXT_TOKENS,
    logFailure: ({ activity, error }) => console.error(activity, error),
  };
  const holds = createHolds();
  const fenced = createActivities(deps);
  const worker = await Worker.create({
    connection: native,
    namespace: 'default',
    taskQueue,
    workflowBundle: await loadWorkflowBundle(),
    activities: holds.watch(options.replace?.(fenced, deps) ?? fenced),
    stickyQueueScheduleToStartTimeout: '1s',
    // The value of a deployment. The default of the SDK delays heartbeats so long that a late one can miss the time-out.
    maxHeartbeatThrottleInterval: heartbeatEveryMs(TIMEOUTS.heartbeatMs),
    shutdownGraceTime: '100ms',
  });
  const running = worker.run();
  return {
    client,
    taskQueue,
    attempts: holds.attempts,
    holdAttempt: holds.holdAttempt,
    dispatch: () => dispatchOnce({ db, client, taskQueue, onStartFailed: (_, error) => console.error(error) }),
    reconcile: async () => {
      await db.$executeRaw`UPDATE wakes SET due_at = clock_timestamp() - interval '1 second' WHERE state = 'delivered'`;
      await db.$executeRaw`UPDATE runs SET due_at = clock_timestamp() - interval '1 second' WHERE state = 'open'`;
      return reconcileOnce({
        db,
        client,
        taskQueue,
        timeLimitMs: TIMEOUTS.limitMs,
        times: TIMES,
        onAction: () => undefined,
      });
    },
    untilNoneOpen: async () => {
      const query = `${ofRuns({ taskQueue })} AND ExecutionStatus = 'Running'`;
      await until('no execution to be open', async () => (await client.workflow.count(query)).count === 0);
    },
    stop: async () => {
      holds.failAll();
      worker.shutdown();
      await running;
      await native.close();
      await connection.close();
    },
  };
}

/** Sends heartbeats while an attempt is held. Without them, Temporal would start another attempt after `heartbeatMs`. */
async function beatUntil<T>(released: Promise<T>): Promise<T> {
  const context = Context.current();
  const beats = setInterval(() => context.heartbeat(), TIMEOUTS.heartbeatMs / 5);
  try {
    return await released;
  } finally {
    clearInterval(beats);
  }
}

interface Armed {
  readonly agentId: string;
  readonly activity: ActivityName;
  readonly position: HoldPosition;
  sprung: boolean;
  arrive(): void;
  end(): void;
  readonly released: Promise<boolean>;
  release(resumes: boolean): void;
}

function createHolds() {
  const armed: Armed[] = [];
  const begun = new Map<string, number>();
  let stopping = false;

  const pass = async (
    agentId: string,
    activity: string,
    position: HoldPosition,
    here: (each: Armed) => void,
  ): Promise<void> => {
    const found = armed.find(
      (each) => !each.sprung && each.agentId === agentId && each.activity === activity && each.position === position,
    );
    if (!found) return;
    here(found);
    found.sprung = true;
    found.arrive();
    if (!(await beatUntil(found.released))) {
      throw ApplicationFailure.create({ type: FAILURE.transient, message: 'the answer was lost' });
    }
  };

  return {
    attempts: (agentId: string, activity: ActivityName): number => begun.get(`${agentId} ${activity}`) ?? 0,
    holdAttempt: (agentId: string, activity: ActivityName, position: HoldPosition): HeldAttempt => {
      let arrive = (): void => {};
      let end = (): void => {};
      let release = (_resumes: boolean): void => {};
      const over = new Promise<void>((resolve) => {
        end = resolve;
      });
      const reached = new Promise<void>((resolve) => {
        arrive = resolve;
      });
      const released = new Promise<boolean>((resolve) => {
        release = resolve;
      });
      armed.push({ agentId, activity, position, sprung: false, arrive, end, released, release });
      return { reached, over, resume: () => release(true), fail: () => release(false) };
    },
    failAll: (): void => {
      stopping = true;
      for (const each of armed) each.release(false);
    },
    watch: (activities: Activities): Activities => {
      const watched = Object.entries(activities).map(([name, work]) => [
        name,
        async (input: never): Promise<unknown> => {
          const agentId = Context.current().info.workflowExecution?.workflowId.split('/')[1] ?? '';
          const key = `${agentId} ${name}`;
          begun.set(key, (begun.get(key) ?? 0) + 1);
          // A worker that stops starts no more attempts.
          if (stopping) throw ApplicationFailure.create({ type: FAILURE.transient, message: 'the worker stops' });
          const held: Armed[] = [];
          try {
            await pass(agentId, name, 'before', (each) => held.push(each));
            const result: unknown = await work(input);
            await pass(agentId, name, 'after', (each) => held.push(each));
            return result;
          } finally {
            for (const each of held) each.end();
          }
        },
      ]);
      return Object.fromEntries(watched) as Activities;
    },
  };
}
