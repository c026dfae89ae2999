// What a test knows of runs without carrying any out: their time-outs, where Temporal is, and how one waits for them. Apart
// from the workers in runs.ts, because loading the SDK's worker costs a test file a second of CPU.

import type { Database } from '../../prisma/store/db/database';
import type { RunTimeouts } from '../../workflows/contract';
import { FULL_RUN } from './test-runs';

/**
 * None of them passes by itself, on however busy a machine, and a run and its model call outlast PATIENCE_MS: a limit that
 * passed is not to be taken for what a test waits for. A test about one of them sets its own.
 */
export const TEST_TIMEOUTS: RunTimeouts = { limitMs: 900_000, stepMs: 30_000, modelMs: 600_000, heartbeatMs: 9_000 };

/** As a deployment has it when nothing is set. */
export const HOLD_EXPIRY_MS = 72 * 3_600_000;

export function temporalAddress(): string {
  const address = process.env['TEST_TEMPORAL_ADDRESS'];
  if (address === undefined) throw new Error('TEST_TEMPORAL_ADDRESS is not set: the jest globalSetup starts a server');
  return address;
}

/**
 * How long a test waits for a condition. No test that passes waits so long, on however busy a machine, and one wait ends
 * before the test's own limit (jest.config.js), so that its message is seen.
 */
const PATIENCE_MS = FULL_RUN ? 110_000 : 50_000;

/** Waits until `probe` returns something, looking often; fails with `what` after `timeoutMs`. */
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

/** The run of a message, once it is closed. */
export async function closedRun(db: Database, messageId: string, agentId?: string) {
  const where = { messageId, state: 'closed', ...(agentId === undefined ? {} : { agentId }) };
  return until(`the run of ${messageId} to close`, () =>
    db.run.findFirst({
      where,
      include: { steps: { orderBy: { position: 'asc' } }, requests: { orderBy: { number: 'asc' } } },
    }),
  );
}
