// Replays the history of a run against this code and returns the first difference.

import type { DataConverter } from '@temporalio/common';
import type { History } from '@temporalio/common/lib/proto-utils';
import { Worker } from '@temporalio/worker';
import { loadWorkflowBundle } from '../../bundle';

export type ReplayOutcome =
  | { readonly replays: true; readonly buildId: string }
  /** `difference` is the SDK's message about the first event that this code would not produce. */
  | { readonly replays: false; readonly buildId: string; readonly difference: string };

export async function replayHistory(
  history: History,
  workflowId: string,
  dataConverter: DataConverter | undefined,
): Promise<ReplayOutcome> {
  const workflowBundle = await loadWorkflowBundle(dataConverter);
  const { buildId } = workflowBundle;
  const converting = dataConverter === undefined ? {} : { dataConverter };
  try {
    await Worker.runReplayHistory({ workflowBundle, ...converting }, history, workflowId);
    return { replays: true, buildId };
  } catch (error) {
    return { replays: false, buildId, difference: differenceOf(error) };
  }
}

/** The message of the innermost error, which names the event; outer errors only add the SDK's advice. */
function differenceOf(error: unknown): string {
  let innermost = error;
  while (innermost instanceof Error && innermost.cause instanceof Error) innermost = innermost.cause;
  return innermost instanceof Error ? innermost.message : String(innermost);
}
