// The worker of the bare workflow: our worker process with other code in it, so that its options can't differ from ours.

import type { Activities } from '../activities';
import { runWorkerProcess } from '../worker/process-main';
import { readBenchBundle } from './bench-bundle';
import { nowMs } from './clock';

const bareActivities = {
  /** Does nothing and says when it returned. */
  pass: async (): Promise<number> => nowMs(),
};

export type BareActivities = typeof bareActivities;

async function main(): Promise<void> {
  const bundle = await readBenchBundle(process.env);
  // The seam is typed for stand-ins of our own activities; a worker takes any.
  await runWorkerProcess(process.env, { bundle, activities: () => bareActivities as unknown as Activities });
}

main().catch((error: unknown) => {
  console.error(error);
  process.exit(1);
});
