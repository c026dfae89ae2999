// How long things may take in the lab, the same for all ways, and how much is tried.

import type { Point } from './points';
import type { Way } from './ways';

export interface LabTimes {
  /** One attempt of any activity from its start, of every way; the room's claim and closing have 10 s of their own. */
  readonly attemptMs: number;
  /** The room's model call, which is noticed to be dead by its heartbeat before that. */
  readonly modelMs: number;
  readonly heartbeatMs: number;
  /** How long jobs stand at their points for the last of a death to arrive. */
  readonly graceMs: number;
  /** After this long a job is called unsettled. */
  readonly settleMs: number;
}

/** Several times what a whole job takes: an attempt that is late is not to look like one that died. */
export const ATTEMPT_MS = 4_000;

export function timesOf(attemptMs = ATTEMPT_MS): LabTimes {
  return {
    attemptMs,
    modelMs: attemptMs * 1.5,
    heartbeatMs: attemptMs,
    // Below Postgres's own limit for a transaction, which a worker sets at 80 % of an attempt.
    graceMs: attemptMs * 0.6,
    // The longest way back: a claim's 10 s, a workflow task's 10 s, the pauses between, late attempts, and a slow machine.
    settleMs: 60_000 + attemptMs * 6,
  };
}

export interface LabSettings {
  readonly ways: readonly Way[];
  readonly points: readonly Point[] | 'all';
  /** Jobs per way and kill point, each in a death of its own. */
  readonly jobs: number;
  /** Most jobs that one death takes, each at another point. */
  readonly perDeath: number;
  /** Jobs per way without a crash, for what a way costs; 0: not measured. */
  readonly costJobs: number;
  readonly times: LabTimes;
}

/** The environment of a worker of the lab, beside where its servers are. */
export function workerTimes(times: LabTimes): Record<string, string> {
  const seconds = (ms: number): string => String(ms / 1_000);
  return {
    RUN_TIME_LIMIT_SECONDS: '120',
    RUN_STEP_TIMEOUT_SECONDS: seconds(times.attemptMs),
    RUN_MODEL_TIMEOUT_SECONDS: seconds(times.modelMs),
    RUN_HEARTBEAT_SECONDS: seconds(times.heartbeatMs),
    DISPATCH_POLL_SECONDS: '0.5',
    DISPATCH_COMPANY_LIMIT: '1000',
    RECONCILE_SECONDS: '2',
  };
}

/** For a worker whose statements are counted: its loops hardly look by themselves; the dispatcher hears of wakes at once. */
export const QUIET_LOOPS: Readonly<Record<string, string>> = { DISPATCH_POLL_SECONDS: '10', RECONCILE_SECONDS: '60' };
