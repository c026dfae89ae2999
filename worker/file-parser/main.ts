// The parser process: parses one file in a thread and ends. The main thread only watches the memory, so that it stays able to
// act when the parser loops. The worker process enforces the time limit.

import { join } from 'node:path';
import { Worker } from 'node:worker_threads';
import type { ParseOutcome, ParseRequest } from './limits';

const WATCH_MS = 20;
/** The share of the memory limit for the thread's heap; the rest is for buffers, code and the main thread. */
const HEAP_SHARE = 0.6;

function answer(outcome: ParseOutcome): void {
  process.send?.(outcome, undefined, undefined, () => process.exit(0));
}

process.once('message', (message) => {
  const request = message as ParseRequest;
  const { memoryBytes } = request.limits;
  const watch = setInterval(() => {
    if (process.memoryUsage.rss() <= memoryBytes) return;
    clearInterval(watch);
    answer({ kind: 'unreadable', code: 'too_much_memory' });
  }, WATCH_MS);
  const thread = new Worker(join(__dirname, 'reader.js'), {
    workerData: request,
    env: {},
    stdout: true,
    stderr: true,
    resourceLimits: { maxOldGenerationSizeMb: Math.floor((memoryBytes / 1024 / 1024) * HEAP_SHARE) },
  });
  thread.once('message', (outcome: ParseOutcome) => {
    clearInterval(watch);
    answer(outcome);
  });
  thread.once('error', (error: NodeJS.ErrnoException) => {
    clearInterval(watch);
    if (error.code === 'ERR_WORKER_OUT_OF_MEMORY') answer({ kind: 'unreadable', code: 'too_much_memory' });
    else answer({ kind: 'unreadable', code: 'broken' });
  });
});
process.on('disconnect', () => process.exit(1));
process.send?.({ kind: 'ready' });
