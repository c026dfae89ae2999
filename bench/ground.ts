// The ground that everything is measured on: one PostgreSQL and one Temporal server, both as `npm start` starts them, and a
// scripted model that answers at once. Stopped in reverse order, whatever happened.

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

/** Migrated once. */
const TEMPLATE = 'bench_template';

/** Each kind of process has a role of its own, by which Postgres counts its statements. */
export const ROLES = ['bench_worker', 'bench_api'] as const;
export type Role = (typeof ROLES)[number];

export interface Ground {
  /** Of the bench's own, empty, and gone at the end. */
  readonly folder: string;
  readonly temporal: { readonly pid: number; readonly address: string; readonly client: Client };
  readonly postgresPid: number;
  readonly model: ScriptedModel;
  readonly masterKeys: string;
  /** A migrated database of that name, made now. */
  createDatabase(name: string): Promise<void>;
  urlOf(database: string, role?: Role): string;
  /** A connection of the bench's own, closed at the end. */
  connect(database: string): Promise<pg.Client>;
  /** A process that finds Postgres and Temporal in its environment, stopped at the end. */
  start(name: string, main: string, env: Record<string, string>): Promise<BenchProcess>;
  /** Leaves a task for the end; tasks run in reverse order. */
  atEnd(task: () => Promise<void>): void;
  /** Idempotent. */
  stop(): Promise<void>;
}

export interface GroundOptions {
  readonly log: (line: string) => void;
  /** Something ended that nobody stopped: nothing measured from here on is worth anything. */
  readonly onBroken: (reason: string) => void;
  /** Aborted: what is half started is given up. */
  readonly signal: AbortSignal;
}

/** Starts the ground. Stops what it started when a part fails. */
export async function startGround(options: GroundOptions): Promise<Ground> {
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
  { log, onBroken, signal }: GroundOptions,
  undo: (() => Promise<void>)[],
  stop: () => Promise<void>,
  isStopping: () => boolean,
): Promise<Ground> {
  const broken = (reason: string): void => {
    if (!isStopping()) onBroken(reason);
  };
  const scratch = await mkdtemp(join(tmpdir(), 'durable-room-bench-'));
  undo.push(() => rm(scratch, { recursive: true, force: true }));
  // PostgreSQL refuses to run as root, and its own user has to pass through here.
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
  // Once more: the library that counts statements is loaded at a server's start only.
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
  // A database that others are copied from may have no session of anybody's.
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
      if (signal.aborted) throw new Error('given up');
      const base = {
        ...(process.env['PATH'] === undefined ? {} : { PATH: process.env['PATH'] }),
        TEMPORAL_ADDRESS: temporal.address,
        TEMPORAL_NAMESPACE: temporal.namespace,
        MASTER_KEYS: masterKeys,
        LOG_LEVEL: 'warn',
      };
      const starting = startProcess(name, main, { ...base, ...env }, broken);
      // Left before it is ready: what is interrupted meanwhile stops it too.
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
