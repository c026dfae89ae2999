// Time-outs of runs, the address of Temporal, and waits for runs. Not in runs.ts, because loading the worker of the SDK costs
// a test file a second of CPU.

import type { Database } from '../../prisma/store/db/database';
import type { RunTimeouts } from '../../workflows/contract';
import { FULL_RUN } from './test-runs';

/**
 * Long enough that none passes on a busy machine. A run and its model call may last longer than PATIENCE_MS, so that a test
 * never mistakes a time-out for the awaited condition. A test of a time-out sets a shorter one.
 */
export const TEST_TIMEOUTS: RunTimeouts = { limitMs: 900_000, stepMs: 30_000, modelMs: 600_000, heartbeatMs: 9_000 };

/** The default of a deployment. */
export const HOLD_EXPIRY_MS = 72 * 3_600_000;

export function temporalAddress(): string {
  const address = process.env['TEST_TEMPORAL_ADDRESS'];
  if (address === undefined) throw new Error('TEST_TEMPORAL_ADDRESS is not set: the jest globalSetup starts a server');
  return address;
}

/**
 * The limit of a wait for a condition. No test that passes waits this long on a busy machine. It is below the time limit of a
 * test (jest.config.js), so that the message of the wait is printed.
 */
const PATIENCE_MS = FULL_RUN ? 110_000 : 50_000;

/** Calls `probe` every 25 ms until it returns a truthy value. @throws Error that names `what` after `timeoutMs` */
export async function until<T>(
  what: string,
  probe: () => Promise<T | null | undefined | false>,
  timeoutMs = PATIENCE_MS,
): Promise<T> {
  const deadline = Date.now() + timeoutMs;
  for (;;) {
    const found = await probe();
    if (found) return found;
    if (Date.now() > deadline) throw new Error(`gave up waiting for ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 25));
  }
}

/** Resolves with the run of a message when it is closed. */
export async function closedRun(db: Database, messageId: string, agentId?: string) {
  const where = { messageId, state: 'closed', ...(agentId === undefined ? {} : { agentId }) };
  return until(`the run of ${messageId} to close`, () =>
    db.run.findFirst({
      where,
      include: { steps: { orderBy: { position: 'asc' } }, requests: { orderBy: { number: 'asc' } } },
    }),
  );
}
