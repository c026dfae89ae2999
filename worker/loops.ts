// The list of a worker's loops: makes, starts, triggers and stops them. What each loop does is in the file that makes it.

import type { Client } from '@temporalio/client';
import type { Logger } from 'pino';
import type { KeyTestDeps } from '../activities/key-test';
import type { Database } from '../prisma/store/db/database';
import { KEY_TEST_NOTIFICATION } from '../prisma/store/model-keys/key-tests';
import { SIGNALS_NOTIFICATION } from '../prisma/store/runs/signals';
import type { WorkerConfig } from './config';
import { createDispatcherLoop, type DispatchPass } from './dispatcher';
import { createFileLoop } from './file-loop';
import { createKeyTester } from './key-tester';
import type { Loop, LoopName, OnPass, PassReport } from './loop';
import { createParkedSweepLoop } from './parked-sweep';
import { createReconcilerLoop, RECONCILER_TIMES, type ReconcilerDeps } from './reconciler';
import { createSignalLoop, type SendSignal } from './signal-dispatcher';
import { createStoredAnswerLoop } from './stored-answer-cleaner';

export interface WorkerLoopsDeps {
  readonly config: WorkerConfig;
  readonly db: Database;
  readonly client: Client;
  /** Starts workflows over the worker's own connection. */
  readonly starter: Client;
  readonly keyTest: KeyTestDeps;
  readonly log: Logger;
  readonly onDispatched: (pass: DispatchPass) => void;
  readonly sendSignal?: SendSignal | undefined;
  /** The test signal: called after every pass of every loop. */
  readonly onPass?: ((loop: LoopName, pass: PassReport) => void) | undefined;
}

export interface WorkerLoops {
  readonly byName: Readonly<Record<LoopName, Loop>>;
  start(): void;
  /** Triggers the loops that a notification is for; null means that notifications may have been lost. */
  triggerFor(notification: string | null): void;
  /** Stops all loops in parallel. */
  stop(): Promise<void>;
}

export function createWorkerLoops(deps: WorkerLoopsDeps): WorkerLoops {
  const { config, db, client, log } = deps;
  const passesOf = (loop: LoopName): OnPass | undefined => {
    const { onPass } = deps;
    return onPass === undefined ? undefined : (pass) => onPass(loop, pass);
  };
  const reconciler: ReconcilerDeps = {
    db,
    client,
    taskQueue: config.taskQueue,
    timeLimitMs: config.timeouts.limitMs,
    times: RECONCILER_TIMES,
    onAction: (action, ids) => log.warn(ids, action),
  };
  const reconcile = { intervalMs: config.reconcileMs, log };
  const byName: Record<LoopName, Loop> = {
    dispatcher: createDispatcherLoop({
      db,
      client: deps.starter,
      // An eager start would give the run to this worker, even if its version is not the current one.
      eager: !config.versioning.on,
      taskQueue: config.taskQueue,
      companyLimit: config.companyLimit,
      intervalMs: config.dispatchPollMs,
      log,
      onDispatched: deps.onDispatched,
      onPass: passesOf('dispatcher'),
    }),
    signals: createSignalLoop({
      db,
      client,
      intervalMs: config.dispatchPollMs,
      log,
      sendSignal: deps.sendSignal,
      onPass: passesOf('signals'),
    }),
    reconciler: createReconcilerLoop({ ...reconcile, reconciler, onPass: passesOf('reconciler') }),
    parked_sweep: createParkedSweepLoop({ ...reconcile, reconciler, onPass: passesOf('parked_sweep') }),
    files: createFileLoop({ db, intervalMs: config.filePollMs, log, onPass: passesOf('files') }),
    key_tests: createKeyTester({
      ...deps.keyTest,
      db,
      onUnopened: (key, error) => log.error({ key, err: error }, 'a model key could not be opened for its test'),
      onError: (error) => log.error({ err: error }, 'key tester pass failed'),
      onPass: passesOf('key_tests'),
    }),
    stored_answers: createStoredAnswerLoop({ db, log, onPass: passesOf('stored_answers') }),
  };
  const all = Object.values(byName);
  return {
    byName,
    start: () => all.forEach((loop) => loop.start()),
    triggerFor: (notification) => {
      if (notification === null || notification === KEY_TEST_NOTIFICATION) byName.key_tests.trigger();
      if (notification === null || notification === SIGNALS_NOTIFICATION) byName.signals.trigger();
      if (notification !== KEY_TEST_NOTIFICATION && notification !== SIGNALS_NOTIFICATION) byName.dispatcher.trigger();
    },
    stop: async () => {
      await Promise.all(all.map((loop) => loop.stop()));
    },
  };
}
