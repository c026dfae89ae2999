// The servers that the project needs: PostgreSQL and Temporal. A configured server is used; for one that is not configured, a
// local one is started here and stopped with this process.
import { join } from 'node:path';

import type { DataFolder } from './data-folder';
import { startEmbeddedPostgres } from './postgres';
import type { Durability, EmbeddedPostgres } from './postgres';
import type { LogLine } from './silence';
import { EmbeddedStartError, reasonOf } from './start-error';
import { findTemporalCli } from './temporal-cli';
import { startEmbeddedTemporal } from './temporal-server';
import type { EmbeddedTemporal } from './temporal-server';

export interface ServicesOptions {
  /** The caller locks it, and releases it after `stop`. May be null only if both servers are configured. */
  readonly dataFolder: DataFolder | null;
  /** DATABASE_URL. If set, that server is used and no local one started. */
  readonly databaseUrl?: string | undefined;
  /** TEMPORAL_ADDRESS. If set, that server is used and no local one started. */
  readonly temporalAddress?: string | undefined;
  readonly temporalNamespace?: string | undefined;
  /** TEMPORAL_CLI_PATH */
  readonly temporalCliPath?: string | undefined;
  /** Keeps a downloaded Temporal CLI. Undefined: the data folder. */
  readonly cliCacheDir?: string | undefined;
  readonly postgresPort?: number | undefined;
  readonly temporalPort?: number | undefined;
  readonly temporalUiPort?: number | undefined;
  readonly temporalHeadless?: boolean | undefined;
  readonly durability?: Durability | undefined;
  readonly log: LogLine;
  /** Called when a local server ends without having been stopped. */
  readonly onUnexpectedEnd?: ((reason: string) => void) | undefined;
  /** For tests. */
  readonly starters?: Partial<Starters> | undefined;
}

export interface Services {
  /** May hold a password, so it must not be logged. */
  readonly databaseUrl: string;
  readonly temporal: {
    readonly address: string;
    readonly namespace: string;
    /** Null if the server is not a local one, or has no UI. */
    readonly uiUrl: string | null;
  };
  /** Stops the local servers in reverse order. Idempotent. */
  stop(): Promise<void>;
}

interface Starters {
  readonly postgres: typeof startEmbeddedPostgres;
  readonly findCli: typeof findTemporalCli;
  readonly temporal: typeof startEmbeddedTemporal;
}

/** Resolves when both servers can be used. If one can't be started, stops the other and throws. */
export async function startServices(given: ServicesOptions): Promise<Services> {
  // An empty variable counts as not configured: a compose file passes a missing variable on as an empty one.
  const options: ServicesOptions = {
    ...given,
    databaseUrl: given.databaseUrl || undefined,
    temporalAddress: given.temporalAddress || undefined,
    temporalNamespace: given.temporalNamespace || undefined,
    temporalCliPath: given.temporalCliPath || undefined,
  };
  const starters: Starters = {
    postgres: startEmbeddedPostgres,
    findCli: findTemporalCli,
    temporal: startEmbeddedTemporal,
    ...options.starters,
  };
  const abort = new AbortController();
  let firstFailure: unknown = null;
  const abortOthers = (error: unknown): never => {
    // The second failure may only follow from the abort, but is still logged.
    if (abort.signal.aborted) options.log(reasonOf(error));
    else firstFailure = error;
    abort.abort();
    throw error;
  };
  const [postgres, temporal] = await Promise.allSettled([
    options.databaseUrl === undefined ? startPostgres(options, starters).catch(abortOthers) : null,
    options.temporalAddress === undefined ? startTemporal(options, starters, abort.signal).catch(abortOthers) : null,
  ]);

  let stopped: Promise<void> | null = null;
  const stop = (): Promise<void> => (stopped ??= stopAll([valueOf(temporal), valueOf(postgres)]));
  if (abort.signal.aborted) {
    await stop();
    throw firstFailure;
  }
  const databaseUrl = options.databaseUrl ?? valueOf(postgres)?.url;
  const address = options.temporalAddress ?? valueOf(temporal)?.address;
  if (databaseUrl === undefined || address === undefined) throw new Error('a service that did not fail has an address');
  return {
    databaseUrl,
    temporal: {
      address,
      namespace: options.temporalNamespace ?? valueOf(temporal)?.namespace ?? 'default',
      uiUrl: valueOf(temporal)?.uiUrl ?? null,
    },
    stop,
  };
}

async function startPostgres(options: ServicesOptions, starters: Starters): Promise<EmbeddedPostgres> {
  const folder = folderOf(options, 'DATABASE_URL');
  const startedAt = Date.now();
  const postgres = await starters.postgres({
    dir: folder.postgres,
    port: options.postgresPort,
    durability: options.durability,
    log: options.log,
    onUnexpectedEnd: options.onUnexpectedEnd,
  });
  options.log(`PostgreSQL is up on 127.0.0.1:${postgres.port} ${since(startedAt)}`);
  return postgres;
}

async function startTemporal(
  options: ServicesOptions,
  starters: Starters,
  signal: AbortSignal,
): Promise<EmbeddedTemporal> {
  const folder = folderOf(options, 'TEMPORAL_ADDRESS');
  const startedAt = Date.now();
  const cli = await starters.findCli({
    configuredPath: options.temporalCliPath,
    cacheDir: options.cliCacheDir ?? join(folder.path, 'cache'),
    log: options.log,
    signal,
  });
  const temporal = await starters.temporal({
    cliPath: cli.path,
    dir: folder.temporal,
    namespace: options.temporalNamespace,
    port: options.temporalPort,
    uiPort: options.temporalUiPort,
    headless: options.temporalHeadless,
    log: options.log,
    onUnexpectedEnd: options.onUnexpectedEnd,
  });
  const ui = temporal.uiUrl === null ? '' : `, its UI on ${temporal.uiUrl}`;
  options.log(`Temporal ${cli.version} is up on ${temporal.address}${ui} ${since(startedAt)}, found by ${cli.foundBy}`);
  return temporal;
}

function folderOf(options: ServicesOptions, setting: string): DataFolder {
  if (options.dataFolder !== null) return options.dataFolder;
  throw new EmbeddedStartError(`${setting} is not set, and there is no data folder to start a server of our own in.`);
}

/** Stops every server, even if one of them can't be stopped. */
async function stopAll(services: readonly ({ stop(): Promise<void> } | null)[]): Promise<void> {
  const failures: unknown[] = [];
  for (const service of services) {
    await service?.stop().catch((error: unknown) => failures.push(error));
  }
  if (failures.length > 0) throw new Error(failures.map(reasonOf).join('; '));
}

function valueOf<T>(result: PromiseSettledResult<T>): T | null {
  return result.status === 'fulfilled' ? result.value : null;
}

function since(startedAt: number): string {
  return `(${((Date.now() - startedAt) / 1000).toFixed(1)} s)`;
}
