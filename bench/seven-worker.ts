// The worker of the comparison with seven activities: our worker process, with its dispatcher, around other activities.

import type { Activities, ActivityDeps } from '../activities';
import { runWorkerProcess } from '../worker/process-main';
import { readBenchBundle } from './bench-bundle';
import { createSevenActivities } from './seven-activities';

async function main(): Promise<void> {
  const bundle = await readBenchBundle(process.env);
  let deps: ActivityDeps | undefined;
  await runWorkerProcess(process.env, {
    bundle,
    deps: (given) => (deps = given),
    activities: () => {
      if (deps === undefined) throw new Error('the activities are built from what the worker gives them');
      // The seam is typed for stand-ins of our own activities; a worker takes any.
      return createSevenActivities(deps) as unknown as Activities;
    },
  });
}

main().catch((error: unknown) => {
  console.error(error);
  process.exit(1);
});
