// The three sides of the comparison: `ours` (the product), `seven` (the same work as seven activities) and `bare` (three
// activities that do nothing). Each has its own database, task queue and worker process with the same options.

import { randomBytes } from 'node:crypto';
import { join } from 'node:path';
import type pg from 'pg';
import { BUNDLE_VARIABLE, writeBenchBundle } from './bench-bundle';
import { createFairnessDatabases } from './fairness';
import type { BenchEnvironment } from './environment';
import type { BenchProcess } from './processes';
import { createRoom, type BenchRoom } from './room';
import { COMPILED } from '../test/support/compiled';

export type SideName = 'ours' | 'seven' | 'bare';

const WORKER_MAIN = join(COMPILED, 'worker', 'main.js');
const API_MAIN = join(COMPILED, 'api', 'main.js');
/** The database of the parked runs. Their measurement starts and stops its own workers. */
export const PARKED_DATABASE = 'bench_parked';
const SEVEN_MAIN = join(__dirname, 'seven-worker.js');
const BARE_MAIN = join(__dirname, 'bare-worker.js');

export interface Side {
  readonly name: SideName;
  readonly database: string;
  readonly taskQueue: string;
  readonly worker: BenchProcess;
  readonly sql: pg.Client;
}

/** A side whose runs are started by the dispatcher after messages in a room. */
export interface RoomSide extends Side {
  readonly room: BenchRoom;
}

export interface Sides {
  readonly ours: RoomSide;
  readonly seven: RoomSide;
  readonly bare: Side;
  readonly api: BenchProcess;
}

/** Creates the databases and rooms, and starts the workers and the API. */
export async function startSides(environment: BenchEnvironment): Promise<Sides> {
  for (const name of ['ours', 'seven', 'bare'] as const) await environment.createDatabase(databaseOf(name));
  await createFairnessDatabases(environment);
  await environment.createDatabase(PARKED_DATABASE);
  const bundle = join(environment.folder, 'bundle.js');
  await writeBenchBundle(bundle);
  const [ours, seven, bare, api] = await Promise.all([
    startSide(environment, 'ours', WORKER_MAIN, {}),
    startSide(environment, 'seven', SEVEN_MAIN, { [BUNDLE_VARIABLE]: bundle }),
    // The dispatcher and the reconciler have no work here, so they poll rarely.
    startSide(environment, 'bare', BARE_MAIN, {
      [BUNDLE_VARIABLE]: bundle,
      DISPATCH_POLL_SECONDS: '60',
      RECONCILE_SECONDS: '60',
    }),
    environment.start('the API', API_MAIN, {
      DATABASE_URL: environment.urlOf(databaseOf('ours'), 'bench_api'),
      API_PORT: '0',
      // The rate limit must not limit the measured throughput.
      RATE_LIMIT_PER_MINUTE: '100000000',
      // Without this key the API creates and prints one.
      OPERATOR_KEY: randomBytes(32).toString('hex'),
      MODEL_PROVIDERS: `scripted=${environment.model.url}`,
    }),
  ]);
  const apiUrl = `http://127.0.0.1:${api.ready.port}`;
  return {
    ours: { ...ours, room: await createRoom(environment, ours.database, apiUrl) },
    seven: { ...seven, room: await createRoom(environment, seven.database, null) },
    bare,
    api,
  };
}

async function startSide(
  environment: BenchEnvironment,
  name: SideName,
  main: string,
  env: Record<string, string>,
): Promise<Side> {
  const database = databaseOf(name);
  const taskQueue = `bench-${name}`;
  const worker = await environment.start(`the worker of ${name}`, main, {
    DATABASE_URL: environment.urlOf(database, 'bench_worker'),
    TASK_QUEUE: taskQueue,
    WORKER_PORT: '0',
    // A high limit, because one company causes the whole load.
    DISPATCH_COMPANY_LIMIT: '1000',
    ...env,
  });
  return { name, database, taskQueue, worker, sql: await environment.connect(database) };
}

function databaseOf(name: SideName): string {
  return `bench_${name}`;
}
