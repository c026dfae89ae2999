// A worker process.

import { runWorkerProcess } from './process-main';

runWorkerProcess(process.env).catch((error: unknown) => {
  console.error(error instanceof Error ? error.message : error);
  process.exit(1);
});
