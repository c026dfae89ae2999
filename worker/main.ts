// A worker process. process-main.ts holds its code, which tests start with seams.

import { runWorkerProcess } from './process-main';

runWorkerProcess(process.env).catch((error: unknown) => {
  console.error(error instanceof Error ? error.message : error);
  process.exit(1);
});
