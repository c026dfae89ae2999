// The effect of a worker's settings: the same batch of runs, with one setting changed at a time.

import { randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { BenchEnvironment } from './environment';
import type { Progress } from './progress';
import { createRoom } from './room';
import { round } from './statistics';
import { COMPILED } from '../test/support/compiled';

const WORKER_MAIN = join(COMPILED, 'worker', 'main.js');
const GIVE_UP_MS = 120_000;

/** A high limit, because one company causes the whole load. */
const COMMON = { DISPATCH_COMPANY_LIMIT: '100' };

const VARIANTS: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  defaults: {},
  'cache of 10 runs': { WORKER_MAX_CACHED_RUNS: '10' },
  '10 activity slots': { WORKER_MAX_ACTIVITIES: '10' },
  '2 pollers per kind': { WORKER_POLLERS: '2' },
  '4 connections to Postgres': { DATABASE_POOL_SIZE: '4' },
};

export interface SettingsResult {
  readonly name: string;
  readonly runs_per_second: number;
  /** Resident memory of the worker at the end. */
  readonly memory_mb: number;
}

export async function createSettingsDatabases(environment: BenchEnvironment): Promise<void> {
  for (let n = 0; n < Object.keys(VARIANTS).length; n += 1) await environment.createDatabase(`bench_settings_${n}`);
}

export async function measureSettings(
  environment: BenchEnvironment,
  runs: number,
  progress: Progress,
): Promise<SettingsResult[]> {
  const results: SettingsResult[] = [];
  for (const [n, [name, env]] of Object.entries(VARIANTS).entries()) {
    progress.begin(`${runs} runs at once, ${name}`);
    const database = `bench_settings_${n}`;
    const sql = await environment.connect(database);
    const room = await createRoom(environment, database, null);
    const worker = await environment.start(`the worker, ${name}`, WORKER_MAIN, {
      DATABASE_URL: environment.urlOf(database, 'bench_worker'),
      TASK_QUEUE: `bench-settings-${randomBytes(4).toString('hex')}`,
      WORKER_PORT: '0',
      ...COMMON,
      ...env,
    });
    await room.postBatch(runs);
    const deadline = Date.now() + GIVE_UP_MS;
    for (;;) {
      const { rows } = await sql.query<{ n: number; seconds: number }>(
        `SELECT count(*)::int AS n, extract(epoch FROM max(closed_at) - (SELECT min(created_at) FROM wakes))::float8 AS seconds
         FROM runs WHERE closed_at IS NOT NULL`,
      );
      const [row] = rows;
      if (row?.n === runs) {
        results.push({ name, runs_per_second: round(runs / row.seconds), memory_mb: residentMb(worker.pid) });
        break;
      }
      if (Date.now() > deadline) throw new Error(`${name}: ${row?.n ?? 0} of ${runs} runs ended`);
      progress.at(`${row?.n ?? 0} runs`);
      await sleep(100);
    }
    await worker.stop();
  }
  return results;
}

function residentMb(pid: number): number {
  const kb = /VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1];
  return Math.round(Number(kb ?? Number.NaN) / 1_024);
}
