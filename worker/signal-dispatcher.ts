// Sends signals to running workflows: decisions on held actions, and that a run was closed. Several dispatchers may run at
// once; a signal that is sent twice changes nothing.

import { WorkflowNotFoundError, type Client } from '@temporalio/client';
import type { Logger } from 'pino';
import { markDelivered, takeSignals, type RunSignal } from '../prisma/store/runs/signals';
import type { Database } from '../prisma/store/db/database';
import { DECISION_SIGNAL, RECHECK_SIGNAL, type DecisionNotice } from '../workflows/messages';
import { createLoop, type Loop, type OnPass } from './loop';

/** Signals per pass: few enough to send well within the lease that the store gives them. */
const BATCH = 100;

export interface SignalDispatcherDeps {
  readonly db: Database;
  readonly client: Client;
  /** Called for a signal that Temporal did not accept; it is repeated within seconds. */
  readonly onSignalFailed: (signal: RunSignal, error: unknown) => void;
}

export interface SignalPass {
  readonly delivered: number;
  readonly failed: number;
  /** The batch was full, so more signals may be due. */
  readonly full: boolean;
}

/** Sends one signal. Tests wrap it. */
export type SendSignal = (signal: RunSignal, send: () => Promise<void>) => Promise<void>;

export interface SignalLoopDeps extends Pick<SignalDispatcherDeps, 'db' | 'client'> {
  readonly intervalMs: number;
  readonly log: Logger;
  readonly sendSignal?: SendSignal | undefined;
  readonly onPass?: OnPass | undefined;
}

export function createSignalLoop({ db, client, intervalMs, log, ...seams }: SignalLoopDeps): Loop {
  const onSignalFailed = (signal: RunSignal, error: unknown): void =>
    log.warn({ run: signal.runId, err: error }, 'signal failed; it is repeated');
  return createLoop({
    intervalMs,
    onError: (error) => log.error({ err: error }, 'signal pass failed'),
    onPass: seams.onPass,
    hasMore: (pass: SignalPass) => pass.full,
    runOnce: () => deliverSignals({ db, client, onSignalFailed }, seams.sendSignal),
  });
}

/** One pass: takes the signals that are due and sends them, the signals of one run in their order. */
export async function deliverSignals(
  deps: SignalDispatcherDeps,
  send: SendSignal = (_, sendOne) => sendOne(),
): Promise<SignalPass> {
  const signals = await takeSignals(deps.db, BATCH);
  if (signals.length === 0) return { delivered: 0, failed: 0, full: false };
  const byRun = new Map<string, RunSignal[]>();
  for (const signal of signals) byRun.set(signal.runId, [...(byRun.get(signal.runId) ?? []), signal]);
  const delivered = (await Promise.all([...byRun.values()].map((ofRun) => deliver(deps, ofRun, send)))).flat();
  if (delivered.length > 0) await markDelivered(deps.db, delivered);
  return { delivered: delivered.length, failed: signals.length - delivered.length, full: signals.length === BATCH };
}

async function deliver(deps: SignalDispatcherDeps, signals: readonly RunSignal[], send: SendSignal): Promise<string[]> {
  const delivered: string[] = [];
  for (const signal of signals) {
    try {
      await send(signal, () => sendSignal(deps.client, signal));
      delivered.push(signal.id);
    } catch (error) {
      deps.onSignalFailed(signal, error);
    }
  }
  return delivered;
}

async function sendSignal(client: Client, signal: RunSignal): Promise<void> {
  const handle = client.workflow.getHandle(signal.workflowId, signal.temporalRunId);
  try {
    switch (signal.kind) {
      case 'recheck':
        await handle.signal(RECHECK_SIGNAL);
        return;
      case 'decision': {
        const notice = noticeOf(signal);
        if (notice !== null) await handle.signal(DECISION_SIGNAL, notice);
      }
    }
  } catch (error) {
    // The execution is gone: its run is closed, or the reconciler closes the run as lost.
    if (!(error instanceof WorkflowNotFoundError)) throw error;
  }
}

/** The decision on an action in its current state; null when the action is past its decision. */
function noticeOf({ step, state }: RunSignal): DecisionNotice | null {
  if (step === null) return null;
  switch (state) {
    case 'approved':
    case 'declined':
    case 'expired':
      return { step, state };
    case 'held':
    case 'superseded':
    case 'executed':
    case 'failed':
    case null:
      return null;
  }
}
