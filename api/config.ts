// The API's configuration, read once from the environment. Errors name the variable and the expected value, never the given
// one.

import { z } from 'zod';
import { normalizeBaseUrl, protocolOfProvider } from '../workflows/policy/model-endpoint';
import type { PriceTable } from '../workflows/policy/prices';
import { parseMasterKeys, type MasterKey } from '../workflows/policy/secret-box';
import { wantsTracing } from '../worker/telemetry/wanted';
import { readPriceTable } from './price-table';

export interface ApiConfig {
  readonly databaseUrl: string;
  readonly poolSize: number;
  readonly statementTimeoutMs: number;
  readonly lockTimeoutMs: number;
  readonly transactionTimeoutMs: number;
  readonly host: string;
  /** 0: any free port. */
  readonly port: number;
  /** The port of `/metrics`, which is not served on the API's own port. Undefined: not served. */
  readonly metricsPort: number | undefined;
  readonly masterKeys: readonly MasterKey[];
  readonly operatorKey: string | undefined;
  readonly providers: ReadonlyMap<string, string>;
  readonly allowedModelHosts: readonly string[];
  readonly fileLimitBytes: number;
  readonly searchLimitMs: number;
  /** Empty: no model has a price. */
  readonly prices: PriceTable;
  /** URL of the Temporal Web UI. Undefined: the console shows no links to it. */
  readonly temporalUiUrl: string | undefined;
  readonly logLevel: string;
  /** Whether to send spans. OpenTelemetry's own variables name their destination. */
  readonly tracing: boolean;
  readonly requestsPerMinute: number;
  readonly streamsPerKey: number;
}

const OPERATOR_KEY_MIN = 32;
const OPERATOR_KEY_MAX = 512;

function whole(fallback: number, min: number, max: number) {
  const expected = `a whole number from ${min} to ${max}`;
  return z
    .string()
    .regex(/^\d{1,9}$/, expected)
    .transform(Number)
    .pipe(z.int().min(min, expected).max(max, expected))
    .default(fallback);
}

const schema = z.object({
  DATABASE_URL: z.string('the URL of a PostgreSQL database'),
  DATABASE_POOL_SIZE: whole(10, 1, 200),
  // A person waits for the answer: if a lock or a statement takes longer than seconds, the answer is 503.
  DATABASE_STATEMENT_TIMEOUT_MS: whole(5_000, 100, 600_000),
  DATABASE_LOCK_TIMEOUT_MS: whole(3_000, 100, 600_000),
  DATABASE_TRANSACTION_TIMEOUT_MS: whole(8_000, 100, 600_000),
  // A file is in memory while it is uploaded, and so are all files that are uploaded at the same time.
  FILE_LIMIT_BYTES: whole(20 * 1024 * 1024, 1, 100 * 1024 * 1024),
  SEARCH_LIMIT_MS: whole(2_000, 10, 60_000),
  API_HOST: z.string().default('127.0.0.1'),
  API_PORT: whole(8080, 0, 65_535),
  API_METRICS_PORT: z
    .string()
    .regex(/^\d{1,5}$/, 'a port')
    .transform(Number)
    .optional(),
  RATE_LIMIT_PER_MINUTE: whole(600, 1, 100_000_000),
  STREAMS_PER_KEY: whole(10, 0, 10_000),
  MASTER_KEYS: z.string('"id:base64" of 32 random bytes, the sealing key first').transform((text, context) => {
    try {
      return parseMasterKeys(text);
    } catch (error) {
      context.addIssue({ code: 'custom', message: error instanceof Error ? error.message : 'not usable' });
      return z.NEVER;
    }
  }),
  OPERATOR_KEY: z
    .string()
    .regex(
      new RegExp(`^[\\x21-\\x7e]{${OPERATOR_KEY_MIN},${OPERATOR_KEY_MAX}}$`),
      `${OPERATOR_KEY_MIN} to ${OPERATOR_KEY_MAX} characters of plain ASCII, without spaces`,
    )
    .optional(),
  MODEL_PROVIDERS: z
    .string()
    .default('anthropic=https://api.anthropic.com/v1,openai=https://api.openai.com/v1')
    .transform((text, context) => {
      const providers = parseProviders(text);
      if (providers !== null) return providers;
      context.addIssue({ code: 'custom', message: '"name=url,name=url", each name once' });
      return z.NEVER;
    }),
  MODEL_ALLOWED_HOSTS: z
    .string()
    .default('')
    .transform((text, context) => {
      const hosts = listOf(text);
      if (hosts.every((host) => /^(\[[0-9a-f:.]+\]|[^\s:/@[\]]+):\d{1,5}$/i.test(host))) return hosts;
      context.addIssue({ code: 'custom', message: '"host:port,host:port"' });
      return z.NEVER;
    }),
  MODEL_PRICES: z
    .string()
    .optional()
    .transform((setting, context): PriceTable => {
      try {
        return setting === undefined ? new Map() : readPriceTable(setting);
      } catch (error) {
        context.addIssue({ code: 'custom', message: error instanceof Error ? error.message : 'not usable' });
        return z.NEVER;
      }
    }),
  TEMPORAL_UI_URL: z.url({ protocol: /^https?$/, error: 'an http or https address' }).optional(),
  LOG_LEVEL: z
    .enum(['fatal', 'error', 'warn', 'info', 'debug', 'silent'], 'one of fatal, error, warn, info, debug, silent')
    .default('info'),
});

/** Reads the configuration. @throws Error that names every missing or invalid variable */
export function readApiConfig(env: Readonly<Record<string, string | undefined>>): ApiConfig {
  // An empty variable counts as not set: `VAR= command` in a shell and `VAR:` in a compose file produce one.
  const set = Object.fromEntries(Object.entries(env).filter(([, value]) => value !== undefined && value !== ''));
  const parsed = schema.safeParse(set);
  if (!parsed.success) {
    const lines = parsed.error.issues.map((issue) => `  ${issue.path.join('.')}: expected ${issue.message}`);
    throw new Error(`The API's configuration is not usable:\n${lines.join('\n')}`);
  }
  const c = parsed.data;
  return {
    databaseUrl: c.DATABASE_URL,
    poolSize: c.DATABASE_POOL_SIZE,
    statementTimeoutMs: c.DATABASE_STATEMENT_TIMEOUT_MS,
    lockTimeoutMs: c.DATABASE_LOCK_TIMEOUT_MS,
    transactionTimeoutMs: c.DATABASE_TRANSACTION_TIMEOUT_MS,
    host: c.API_HOST,
    port: c.API_PORT,
    metricsPort: c.API_METRICS_PORT,
    masterKeys: c.MASTER_KEYS,
    operatorKey: c.OPERATOR_KEY,
    providers: c.MODEL_PROVIDERS,
    allowedModelHosts: c.MODEL_ALLOWED_HOSTS,
    fileLimitBytes: c.FILE_LIMIT_BYTES,
    searchLimitMs: c.SEARCH_LIMIT_MS,
    prices: c.MODEL_PRICES,
    temporalUiUrl: c.TEMPORAL_UI_URL,
    logLevel: c.LOG_LEVEL,
    tracing: wantsTracing(set),
    requestsPerMinute: c.RATE_LIMIT_PER_MINUTE,
    streamsPerKey: c.STREAMS_PER_KEY,
  };
}

function listOf(text: string): string[] {
  return text
    .split(',')
    .map((entry) => entry.trim())
    .filter((entry) => entry !== '');
}

function parseProviders(text: string): ReadonlyMap<string, string> | null {
  const providers = new Map<string, string>();
  for (const entry of listOf(text)) {
    const equals = entry.indexOf('=');
    const name = entry.slice(0, Math.max(equals, 0)).trim();
    const url = normalizeBaseUrl(entry.slice(equals + 1), protocolOfProvider(name));
    if (!/^[a-z0-9][a-z0-9_-]{0,39}$/.test(name) || providers.has(name) || !url.ok) return null;
    providers.set(name, url.url);
  }
  return providers.size === 0 ? null : providers;
}
