// The time limits of the lab, equal for all ways, and the number of jobs.

import type { Point } from './points';
import type { Way } from './ways';

export interface LabTimes {
  /** Timeout of one attempt of an activity, for all ways. The room's claim and closing have 10 s. */
  readonly attemptMs: number;
  /** Timeout of the room's model call. A dead worker is detected earlier, by the heartbeat. */
  readonly modelMs: number;
  readonly heartbeatMs: number;
  /** How long jobs wait at their points for the other jobs of the same kill. */
  readonly graceMs: number;
  /** After this time a job counts as unsettled. */
  readonly settleMs: number;
}

/** Several times the duration of a job, so that a slow attempt does not look like a dead one. */
export const ATTEMPT_MS = 4_000;

export function timesOf(attemptMs = ATTEMPT_MS): LabTimes {
  return {
    attemptMs,
    modelMs: attemptMs * 1.5,
    heartbeatMs: attemptMs,
    // Below Postgres' transaction timeout, which a worker sets to 80 % of an attempt.
    graceMs: attemptMs * 0.6,
    // The longest recovery: 10 s for a claim, 10 s for a workflow task, pauses, late attempts and a slow machine.
    settleMs: 60_000 + attemptMs * 6,
  };
}

export interface LabSettings {
  readonly ways: readonly Way[];
  readonly points: readonly Point[] | 'all';
  /** Jobs per way and kill point, each with its own kill. */
  readonly jobs: number;
  /** The most jobs that one kill hits, each at another point. */
  readonly perDeath: number;
  /** Jobs per way without a crash, for the cost; 0 skips the measurement. */
  readonly costJobs: number;
  readonly times: LabTimes;
}

/** The environment of a lab worker, without the addresses of its servers. */
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

/** For a worker whose statements are counted: its loops poll rarely; notifications still wake the dispatcher at once. */
export const QUIET_LOOPS: Readonly<Record<string, string>> = { DISPATCH_POLL_SECONDS: '10', RECONCILE_SECONDS: '60' };
