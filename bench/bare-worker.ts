// The worker of the bare workflow: the product's worker process with other workflows and activities, so that all options are
// the same.

import type { Activities } from '../activities';
import { runWorkerProcess } from '../worker/process-main';
import { readBenchBundle } from './bench-bundle';
import { nowMs } from './clock';

const bareActivities = {
  /** Does nothing and returns the current time. */
  pass: async (): Promise<number> => nowMs(),
};

export type BareActivities = typeof bareActivities;

async function main(): Promise<void> {
  const bundle = await readBenchBundle(process.env);
  // The option is typed for the product's activities; a worker accepts any activities.
  await runWorkerProcess(process.env, { bundle, activities: () => bareActivities as unknown as Activities });
}

main().catch((error: unknown) => {
  console.error(error);
  process.exit(1);
});
