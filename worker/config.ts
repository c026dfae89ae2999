// The worker's configuration, read once from the environment. Errors name the variable, never its value.

import { z } from 'zod';
import { parseMasterKeys, type MasterKey } from '../workflows/policy/secret-box';
import { CONTEXT_TOKENS } from '../activities/context/render';
import { wantsTracing } from './telemetry/wanted';
import { TASK_QUEUE, type RunTimeouts } from '../workflows/contract';

/**
 * The bounds of the time limits of a run and of a model request. The last 2 s of each limit are reserved for recording the
 * answer, so with a lower limit the model would have almost no time and every run would time out.
 */
const TIME_LIMIT_MIN_SECONDS = 10;
const TIME_LIMIT_MAX_SECONDS = 3_600;
const MODEL_TIMEOUT_MIN_SECONDS = 3;

/** Longest time that a held action may wait for a decision. A database constraint holds the same bound. */
const HOLD_EXPIRY_MAX_HOURS = 90 * 24;

const seconds = (fallback: number, min: number, max: number, tooShort?: string) =>
  z.coerce.number().min(min, tooShort).max(max).default(fallback);

const tooShortForModel = (min: number): string =>
  `at least ${min} seconds: 2 of them are kept for recording the answer`;

/**
 * About as many runs are active as there are activity slots, and only active runs need a slot in the cache. A parked run
 * keeps its cache slot until another run needs it.
 */
const CACHED_RUNS_PER_SLOT = 1.5;

const schema = z.object({
  DATABASE_URL: z.string().min(1),
  DATABASE_POOL_SIZE: z.coerce.number().int().min(2).max(200).default(10),
  MASTER_KEYS: z.string().min(1),
  MODEL_ALLOWED_HOSTS: z.string().default(''),
  TASK_QUEUE: z.string().min(1).default(TASK_QUEUE),
  WORKER_HOST: z.string().default('127.0.0.1'),
  WORKER_PORT: z.coerce.number().int().min(0).max(65_535).default(8081),
  WORKER_SDK_METRICS_ADDRESS: z
    .string()
    .regex(/^(\[[0-9a-f:.]+\]|[0-9.]+):\d{1,5}$/i, 'an IP address and a port, "0.0.0.0:9464"')
    .optional(),
  WORKER_POLLERS: z.coerce.number().int().min(2).max(100).default(10),
  WORKER_MAX_ACTIVITIES: z.coerce.number().int().min(1).max(1_000).default(100),
  WORKER_MAX_CACHED_RUNS: z.coerce.number().int().min(10).max(100_000).optional(),
  WORKER_VERSIONING: z.enum(['on', 'off']).default('off'),
  WORKER_DEPLOYMENT: z
    .string()
    .regex(/^[^.:]{1,128}$/, 'a name without "." and ":"')
    .default('durable-room'),
  WORKER_BUILD_ID: z
    .string()
    .regex(/^[\w.-]{1,64}$/, 'letters, digits, "_", "-" and "."')
    .optional(),
  WORKER_SHUTDOWN_GRACE_SECONDS: seconds(10, 0, 600),
  RUN_TIME_LIMIT_SECONDS: seconds(
    300,
    TIME_LIMIT_MIN_SECONDS,
    TIME_LIMIT_MAX_SECONDS,
    tooShortForModel(TIME_LIMIT_MIN_SECONDS),
  ),
  RUN_STEP_TIMEOUT_SECONDS: seconds(10, 0.5, 60),
  RUN_MODEL_TIMEOUT_SECONDS: seconds(95, MODEL_TIMEOUT_MIN_SECONDS, 600, tooShortForModel(MODEL_TIMEOUT_MIN_SECONDS)),
  RUN_HEARTBEAT_SECONDS: seconds(10, 0.5, 60),
  HOLD_EXPIRY_HOURS: z.coerce.number().min(0.001).max(HOLD_EXPIRY_MAX_HOURS).default(72),
  DISPATCH_POLL_SECONDS: seconds(1, 0.05, 60),
  // A fifth of a worker's activity slots, so that one company can't occupy a whole worker.
  DISPATCH_COMPANY_LIMIT: z.coerce.number().int().min(1).max(100_000).default(20),
  RECONCILE_SECONDS: seconds(10, 0.1, 60),
  RUN_CONTEXT_TOKENS: z.coerce.number().int().min(1_000).max(1_000_000).default(CONTEXT_TOKENS),
  FILE_POLL_SECONDS: seconds(1, 0.05, 60),
  LOG_LEVEL: z.enum(['fatal', 'error', 'warn', 'info', 'debug', 'silent']).default('info'),
});

export interface WorkerConfig {
  readonly databaseUrl: string;
  readonly poolSize: number;
  readonly masterKeys: readonly MasterKey[];
  readonly allowedModelHosts: readonly string[];
  readonly taskQueue: string;
  readonly health: { readonly host: string; readonly port: number };
  /** Address at which the SDK's core serves its own metrics. Undefined: not served. */
  readonly sdkMetricsAddress: string | undefined;
  /** Open long polls to Temporal, for workflow tasks and for activity tasks each. */
  readonly pollers: number;
  readonly maxActivities: number;
  readonly maxCachedRuns: number;
  readonly shutdownGraceMs: number;
  readonly versioning: {
    /** Temporal gives runs only to the deployment's current version, and moves open runs to it at their next task. */
    readonly on: boolean;
    readonly deployment: string;
    /** Undefined: derived from the workflow code. */
    readonly buildId: string | undefined;
  };
  readonly timeouts: RunTimeouts;
  /** Time within which a held action must be decided. */
  readonly holdExpiryMs: number;
  readonly dispatchPollMs: number;
  /** Most runs in flight of one company. */
  readonly companyLimit: number;
  readonly reconcileMs: number;
  readonly contextTokens: number;
  readonly filePollMs: number;
  readonly logLevel: string;
  /** Whether to send spans. OpenTelemetry's own variables name their destination. */
  readonly tracing: boolean;
}

/** Reads the configuration. @throws Error that names every missing or invalid variable */
export function readWorkerConfig(env: Record<string, string | undefined>): WorkerConfig {
  const set = Object.fromEntries(Object.entries(env).filter(([, value]) => value !== undefined && value !== ''));
  const parsed = schema.safeParse(set);
  if (!parsed.success) {
    const lines = parsed.error.issues.map((issue) => `  ${issue.path.join('.')}: ${issue.message}`);
    throw new Error(`The worker's configuration is not usable:\n${lines.join('\n')}`);
  }
  const c = parsed.data;
  return {
    databaseUrl: c.DATABASE_URL,
    poolSize: c.DATABASE_POOL_SIZE,
    masterKeys: parseMasterKeys(c.MASTER_KEYS),
    allowedModelHosts: c.MODEL_ALLOWED_HOSTS.split(',')
      .map((host) => host.trim())
      .filter(Boolean),
    taskQueue: c.TASK_QUEUE,
    health: { host: c.WORKER_HOST, port: c.WORKER_PORT },
    sdkMetricsAddress: c.WORKER_SDK_METRICS_ADDRESS,
    pollers: c.WORKER_POLLERS,
    maxActivities: c.WORKER_MAX_ACTIVITIES,
    maxCachedRuns: c.WORKER_MAX_CACHED_RUNS ?? Math.max(10, Math.ceil(c.WORKER_MAX_ACTIVITIES * CACHED_RUNS_PER_SLOT)),
    versioning: { on: c.WORKER_VERSIONING === 'on', deployment: c.WORKER_DEPLOYMENT, buildId: c.WORKER_BUILD_ID },
    shutdownGraceMs: c.WORKER_SHUTDOWN_GRACE_SECONDS * 1_000,
    timeouts: {
      limitMs: c.RUN_TIME_LIMIT_SECONDS * 1_000,
      stepMs: c.RUN_STEP_TIMEOUT_SECONDS * 1_000,
      modelMs: c.RUN_MODEL_TIMEOUT_SECONDS * 1_000,
      heartbeatMs: c.RUN_HEARTBEAT_SECONDS * 1_000,
    },
    holdExpiryMs: c.HOLD_EXPIRY_HOURS * 3_600_000,
    dispatchPollMs: c.DISPATCH_POLL_SECONDS * 1_000,
    companyLimit: c.DISPATCH_COMPANY_LIMIT,
    reconcileMs: c.RECONCILE_SECONDS * 1_000,
    contextTokens: c.RUN_CONTEXT_TOKENS,
    filePollMs: c.FILE_POLL_SECONDS * 1_000,
    logLevel: c.LOG_LEVEL,
    tracing: wantsTracing(set),
  };
}

/**
 * Postgres's time limits, shorter than the time-out of a step and than the 10 s of a claim or a closing: Postgres gives up
 * first, so that an attempt that Temporal has given up does not keep its locks.
 */
export function databaseTimeouts(stepMs: number): {
  lockTimeoutMs: number;
  statementTimeoutMs: number;
  transactionTimeoutMs: number;
} {
  const withinMs = Math.min(stepMs, 10_000);
  return {
    lockTimeoutMs: Math.round(withinMs * 0.3),
    statementTimeoutMs: Math.round(withinMs * 0.5),
    transactionTimeoutMs: Math.round(withinMs * 0.8),
  };
}
