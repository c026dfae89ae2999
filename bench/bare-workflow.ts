// The least that a run of three activities can cost: three that do nothing, one after the other.

import { proxyActivities } from '@temporalio/workflow';
import type { BareActivities } from './bare-worker';

const { pass } = proxyActivities<BareActivities>({ startToCloseTimeout: '10s', retry: { maximumAttempts: 1 } });

/** Resolves to when its third activity returned, in milliseconds of this machine's clock. */
export async function bareRun(): Promise<number> {
  await pass();
  await pass();
  return pass();
}
