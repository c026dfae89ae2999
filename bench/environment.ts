// The servers of the bench: one PostgreSQL and one Temporal server, started as `npm start` does, and a scripted model that
// answers without delay. All are stopped in reverse order, also after an error.

import { randomBytes } from 'node:crypto';
import { chmod, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Client, Connection } from '@temporalio/client';
import pg from 'pg';
import { migrateDatabase } from '../prisma/migrate';
import { openDataFolder } from '../worker/local/data-folder';
import { startEmbeddedPostgres } from '../worker/local/postgres';
import { findTemporalCli } from '../worker/local/temporal-cli';
import { startEmbeddedTemporal } from '../worker/local/temporal-server';
import { startScriptedModel, type ScriptedModel } from '../test/support/scripted-model-server';
import { startProcess, type BenchProcess } from './processes';
import { CLI_CACHE } from '../worker/local/project-root';

/** The migrated database from which the others are copied. */
const TEMPLATE = 'bench_template';

/** Each kind of process has its own role, so that Postgres counts its statements separately. */
export const ROLES = ['bench_worker', 'bench_api'] as const;
export type Role = (typeof ROLES)[number];

export interface BenchEnvironment {
  /** An empty folder of the bench, removed at the end. */
  readonly folder: string;
  readonly temporal: { readonly pid: number; readonly address: string; readonly client: Client };
  readonly postgresPid: number;
  readonly model: ScriptedModel;
  readonly masterKeys: string;
  /** Creates a migrated database with this name. */
  createDatabase(name: string): Promise<void>;
  urlOf(database: string, role?: Role): string;
  /** Opens a connection for the bench, closed at the end. */
  connect(database: string): Promise<pg.Client>;
  /** Starts a process with the addresses of Postgres and Temporal in its environment; it is stopped at the end. */
  start(name: string, main: string, env: Record<string, string>): Promise<BenchProcess>;
  /** Adds a task for the end. Tasks run in reverse order. */
  atEnd(task: () => Promise<void>): void;
  /** Idempotent. */
  stop(): Promise<void>;
}

export interface EnvironmentOptions {
  readonly log: (line: string) => void;
  /** Called when a server ended unexpectedly. Later measurements are invalid. */
  readonly onBroken: (reason: string) => void;
  /** On abort, servers that are still starting are given up. */
  readonly signal: AbortSignal;
}

/** Starts all servers. If one fails, stops the others. */
export async function startEnvironment(options: EnvironmentOptions): Promise<BenchEnvironment> {
  const undo: (() => Promise<void>)[] = [];
  let stopping: Promise<void> | undefined;
  const stop = (): Promise<void> =>
    (stopping ??= (async () => {
      for (const step of undo.reverse()) {
        await step().catch((error: unknown) => options.log(`while stopping: ${String(error)}`));
      }
    })());
  try {
    return await start(options, undo, stop, () => stopping !== undefined);
  } catch (error) {
    await stop();
    throw error;
  }
}

async function start(
  { log, onBroken, signal }: EnvironmentOptions,
  undo: (() => Promise<void>)[],
  stop: () => Promise<void>,
  isStopping: () => boolean,
): Promise<BenchEnvironment> {
  const broken = (reason: string): void => {
    if (!isStopping()) onBroken(reason);
  };
  const scratch = await mkdtemp(join(tmpdir(), 'durable-room-bench-'));
  undo.push(() => rm(scratch, { recursive: true, force: true }));
  // PostgreSQL refuses to run as root, and its own user needs access to this folder.
  await chmod(scratch, 0o711);
  const folder = await openDataFolder(join(scratch, 'data'));
  undo.push(() => folder.release());

  const postgresOptions = { dir: folder.postgres, durability: 'safe', log, onUnexpectedEnd: broken } as const;
  const first = await startEmbeddedPostgres(postgresOptions);
  try {
    await prepareServer(first.url);
  } finally {
    await first.stop();
  }
  // Start again: the library that counts statements is loaded only at the start of the server.
  const postgres = await startEmbeddedPostgres(postgresOptions);
  undo.push(() => postgres.stop());
  const cli = await findTemporalCli({
    configuredPath: process.env['TEMPORAL_CLI_PATH'] || undefined,
    cacheDir: CLI_CACHE,
    log,
    signal,
  });
  const temporal = await startEmbeddedTemporal({
    cliPath: cli.path,
    dir: folder.temporal,
    headless: true,
    log,
    onUnexpectedEnd: broken,
  });
  undo.push(() => temporal.stop());
  const connection = await Connection.connect({ address: temporal.address });
  undo.push(() => connection.close());
  const model = await startScriptedModel();
  undo.push(() => model.stop());

  const password = randomBytes(12).toString('hex');
  const urlOf = (database: string, role?: Role): string => {
    const url = new URL(postgres.url);
    url.pathname = `/${database}`;
    if (role !== undefined) [url.username, url.password] = [role, password];
    return url.toString();
  };
  const connect = async (database: string): Promise<pg.Client> => {
    const client = new pg.Client({ connectionString: urlOf(database), application_name: 'durable-room-bench' });
    client.on('error', (error) => broken(`the bench lost its connection: ${error.message}`));
    await client.connect();
    undo.push(() => client.end());
    return client;
  };
  const admin = await connect('postgres');
  for (const role of ROLES) await admin.query(`CREATE ROLE ${role} LOGIN SUPERUSER PASSWORD '${password}'`);
  // Postgres cannot copy a database that has open sessions.
  let template: Promise<void> | undefined;
  const makeTemplate = async (): Promise<void> => {
    await admin.query(`CREATE DATABASE ${TEMPLATE} TEMPLATE template0`);
    await migrateDatabase(urlOf(TEMPLATE));
    const client = new pg.Client({ connectionString: urlOf(TEMPLATE) });
    await client.connect();
    await client.query('CREATE EXTENSION pg_stat_statements');
    await client.end();
  };
  const masterKeys = `bench:${randomBytes(32).toString('base64')}`;

  return {
    folder: scratch,
    temporal: { pid: temporal.pid, address: temporal.address, client: new Client({ connection }) },
    postgresPid: postgres.pid,
    model,
    masterKeys,
    createDatabase: async (name) => {
      await (template ??= makeTemplate());
      await admin.query(`CREATE DATABASE ${name} TEMPLATE ${TEMPLATE}`);
    },
    urlOf,
    connect,
    start: async (name, main, env) => {
      if (signal.aborted) throw new Error('the bench was aborted');
      const base = {
        ...(process.env['PATH'] === undefined ? {} : { PATH: process.env['PATH'] }),
        TEMPORAL_ADDRESS: temporal.address,
        TEMPORAL_NAMESPACE: temporal.namespace,
        MASTER_KEYS: masterKeys,
        LOG_LEVEL: 'warn',
      };
      const starting = startProcess(name, main, { ...base, ...env }, broken);
      // Registered before the process is ready, so that an interruption stops it too.
      undo.push(async () => (await starting.catch(() => null))?.stop());
      return starting;
    },
    atEnd: (task) => void undo.push(task),
    stop,
  };
}

async function prepareServer(url: string): Promise<void> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    await client.query(`ALTER SYSTEM SET shared_preload_libraries = 'pg_stat_statements'`);
    await client.query(`ALTER SYSTEM SET track_commit_timestamp = on`);
  } finally {
    await client.end();
  }
}
