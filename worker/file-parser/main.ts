// The parser's process: reads one file in a thread and ends. This side only watches, so that a reader that spins or
// swallows memory is seen and ended; the time is the worker's to keep.

import { join } from 'node:path';
import { Worker } from 'node:worker_threads';
import type { ParseOutcome, ParseRequest } from './limits';

const WATCH_MS = 20;
/** What the thread's own heap may take of the whole: the rest is buffers, code and this side. */
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
