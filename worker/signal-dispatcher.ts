// Carries signals to running workflows: decisions of held actions, and that a run was closed. Any number of dispatchers may
// run at once; a signal said twice changes nothing.

import { WorkflowNotFoundError, type Client } from '@temporalio/client';
import { markDelivered, takeSignals, type RunSignal } from '../prisma/store/runs/signals';
import type { Database } from '../prisma/store/db/database';
import { DECISION_SIGNAL, RECHECK_SIGNAL, type DecisionNotice } from '../workflows/messages';

/** Signals taken in one pass: few enough to be sent well within the lease that the store gives them. */
const BATCH = 100;

export interface SignalDispatcherDeps {
  readonly db: Database;
  readonly client: Client;
  /** Told of a signal that Temporal did not take; it is repeated within seconds. */
  readonly onSignalFailed: (signal: RunSignal, error: unknown) => void;
}

export interface SignalPass {
  readonly delivered: number;
  readonly failed: number;
  /** The pass was full: there may be more. */
  readonly full: boolean;
}

/** Sends one signal; a test may stand around it. */
export type SendSignal = (signal: RunSignal, send: () => Promise<void>) => Promise<void>;

/** One pass: takes the signals that are due and sends them, those of one run in their order. */
export async function deliverSignals(
  deps: SignalDispatcherDeps,
  around: SendSignal = (_, send) => send(),
): Promise<SignalPass> {
  const signals = await takeSignals(deps.db, BATCH);
  if (signals.length === 0) return { delivered: 0, failed: 0, full: false };
  const byRun = new Map<string, RunSignal[]>();
  for (const signal of signals) byRun.set(signal.runId, [...(byRun.get(signal.runId) ?? []), signal]);
  const delivered = (await Promise.all([...byRun.values()].map((ofRun) => deliver(deps, ofRun, around)))).flat();
  if (delivered.length > 0) await markDelivered(deps.db, delivered);
  return { delivered: delivered.length, failed: signals.length - delivered.length, full: signals.length === BATCH };
}

async function deliver(
  deps: SignalDispatcherDeps,
  signals: readonly RunSignal[],
  around: SendSignal,
): Promise<string[]> {
  const delivered: string[] = [];
  for (const signal of signals) {
    try {
      await around(signal, () => sendSignal(deps.client, signal));
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
    // Nobody is there to be told: the run is closed, or the reconciler will find it lost.
    if (!(error instanceof WorkflowNotFoundError)) throw error;
  }
}

/** What is said of an action as it stands now; null when it has gone further by itself. */
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
