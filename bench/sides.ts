// The three that are compared, each with a database, a task queue and a worker process of its own, under the same options:
// ours, the same work as seven activities, and a bare workflow of three activities that do nothing.

import { randomBytes } from 'node:crypto';
import { join } from 'node:path';
import type pg from 'pg';
import { BUNDLE_VARIABLE, writeBenchBundle } from './bench-bundle';
import { createFairnessDatabases } from './fairness';
import type { Ground } from './ground';
import type { BenchProcess } from './processes';
import { createRoom, type BenchRoom } from './room';
import { COMPILED } from '../test/support/compiled';

export type SideName = 'ours' | 'seven' | 'bare';

const WORKER_MAIN = join(COMPILED, 'worker', 'main.js');
const API_MAIN = join(COMPILED, 'api', 'main.js');
/** Of the runs that wait; its worker is started and stopped as they are measured. */
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

/** A side that a dispatcher starts, out of a room. */
export interface RoomSide extends Side {
  readonly room: BenchRoom;
}

export interface Sides {
  readonly ours: RoomSide;
  readonly seven: RoomSide;
  readonly bare: Side;
  readonly api: BenchProcess;
}

/** Makes the databases and their rooms, and starts the workers and the API. */
export async function startSides(ground: Ground): Promise<Sides> {
  for (const name of ['ours', 'seven', 'bare'] as const) await ground.createDatabase(databaseOf(name));
  await createFairnessDatabases(ground);
  await ground.createDatabase(PARKED_DATABASE);
  const bundle = join(ground.folder, 'bundle.js');
  await writeBenchBundle(bundle);
  const [ours, seven, bare, api] = await Promise.all([
    startSide(ground, 'ours', WORKER_MAIN, {}),
    startSide(ground, 'seven', SEVEN_MAIN, { [BUNDLE_VARIABLE]: bundle }),
    // Its dispatcher and reconciler have nothing to do, and are told to hardly look.
    startSide(ground, 'bare', BARE_MAIN, {
      [BUNDLE_VARIABLE]: bundle,
      DISPATCH_POLL_SECONDS: '60',
      RECONCILE_SECONDS: '60',
    }),
    ground.start('the API', API_MAIN, {
      DATABASE_URL: ground.urlOf(databaseOf('ours'), 'bench_api'),
      API_PORT: '0',
      // What one client may ask for is no measure of what the door takes.
      RATE_LIMIT_PER_MINUTE: '100000000',
      // One is made and printed where none is configured.
      OPERATOR_KEY: randomBytes(32).toString('hex'),
      MODEL_PROVIDERS: `scripted=${ground.model.url}`,
    }),
  ]);
  const apiUrl = `http://127.0.0.1:${api.ready.port}`;
  return {
    ours: { ...ours, room: await createRoom(ground, ours.database, apiUrl) },
    seven: { ...seven, room: await createRoom(ground, seven.database, null) },
    bare,
    api,
  };
}

async function startSide(ground: Ground, name: SideName, main: string, env: Record<string, string>): Promise<Side> {
  const database = databaseOf(name);
  const taskQueue = `bench-${name}`;
  const worker = await ground.start(`the worker of ${name}`, main, {
    DATABASE_URL: ground.urlOf(database, 'bench_worker'),
    TASK_QUEUE: taskQueue,
    WORKER_PORT: '0',
    // One company is the whole load, and what is measured is a run.
    DISPATCH_COMPANY_LIMIT: '1000',
    ...env,
  });
  return { name, database, taskQueue, worker, sql: await ground.connect(database) };
}

function databaseOf(name: SideName): string {
  return `bench_${name}`;
}
