// Replays a run's history against this code, and names the first difference.

import type { DataConverter } from '@temporalio/common';
import type { History } from '@temporalio/common/lib/proto-utils';
import { Worker } from '@temporalio/worker';
import { loadWorkflowBundle } from '../../bundle';

export type ReplayOutcome =
  | { readonly replays: true; readonly buildId: string }
  /** `difference` is what the SDK says of the first event that this code would not have made. */
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

/** The event named by the innermost error, without the SDK's advice around it. */
function differenceOf(error: unknown): string {
  let innermost = error;
  while (innermost instanceof Error && innermost.cause instanceof Error) innermost = innermost.cause;
  return innermost instanceof Error ? innermost.message : String(innermost);
}
