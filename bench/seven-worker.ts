// The worker of the comparison with seven activities: the product's worker process and dispatcher with other activities.

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
      if (deps === undefined) throw new Error('the worker must set its dependencies before it builds activities');
      // The option is typed for the product's activities; a worker accepts any activities.
      return createSevenActivities(deps) as unknown as Activities;
    },
  });
}

main().catch((error: unknown) => {
  console.error(error);
  process.exit(1);
});
