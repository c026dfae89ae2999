// The lower bound for a run with three activities: three activities in sequence that do nothing.

import { proxyActivities } from '@temporalio/workflow';
import type { BareActivities } from './bare-worker';

const { pass } = proxyActivities<BareActivities>({ startToCloseTimeout: '10s', retry: { maximumAttempts: 1 } });

/** Resolves to the time at which the third activity returned, in milliseconds of this machine's clock. */
export async function bareRun(): Promise<number> {
  await pass();
  await pass();
  return pass();
}
