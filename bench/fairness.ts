// How one company's flood of messages delays a single message of another company: the number of the flood's runs that end
// between the message's commit and its reply, with the default limit of open runs per company and without a limit.

import { randomBytes } from 'node:crypto';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { BenchEnvironment } from './environment';
import type { Progress } from './progress';
import { createRoom } from './room';
import { median } from './statistics';
import { COMPILED } from '../test/support/compiled';

const WORKER_MAIN = join(COMPILED, 'worker', 'main.js');

/** Time for the flood to fill all its run slots before the other company posts. */
const FILL_MS = 2_000;
const GIVE_UP_MS = 90_000;

export interface Fairness {
  readonly flood: number;
  readonly capped: FairnessRound;
  readonly uncapped: FairnessRound;
}

export interface FairnessRound {
  readonly company_limit: number;
  /** One value per sample: the flood's runs that ended while the other message waited for its reply. */
  readonly runs_between: readonly number[];
  readonly median_runs_between: number;
  readonly reply_ms: readonly number[];
}

export async function createFairnessDatabases(environment: BenchEnvironment): Promise<void> {
  for (const name of ['capped', 'uncapped']) await environment.createDatabase(databaseOf(name));
}

function databaseOf(name: string): string {
  return `bench_fairness_${name}`;
}

export async function measureFairness(
  environment: BenchEnvironment,
  options: { flood: number; samples: number },
  progress: Progress,
): Promise<Fairness> {
  // The default limit, then a limit that is never reached.
  const capped = await measureRound(environment, 'capped', {}, 20, options, progress);
  const none = 100_000;
  const limit = { DISPATCH_COMPANY_LIMIT: String(none) };
  const uncapped = await measureRound(environment, 'uncapped', limit, none, options, progress);
  return { flood: options.flood, capped, uncapped };
}

async function measureRound(
  environment: BenchEnvironment,
  name: string,
  env: Record<string, string>,
  limit: number,
  { flood, samples }: { flood: number; samples: number },
  progress: Progress,
): Promise<FairnessRound> {
  progress.begin(`a flood of ${flood} and a single message, ${name}`);
  const database = databaseOf(name);
  const sql = await environment.connect(database);
  const [loud, quiet] = [
    await createRoom(environment, database, null),
    await createRoom(environment, database, null, 'tamarack'),
  ];
  const worker = await environment.start(`the worker of ${name}`, WORKER_MAIN, {
    DATABASE_URL: environment.urlOf(database, 'bench_worker'),
    TASK_QUEUE: `bench-fairness-${randomBytes(4).toString('hex')}`,
    WORKER_PORT: '0',
    ...env,
  });
  try {
    await loud.postBatch(flood);
    await sleep(FILL_MS);
    const runsBetween: number[] = [];
    const replyMs: number[] = [];
    for (let n = 0; n < samples; n += 1) {
      progress.at(`${n} of ${samples}`);
      await quiet.postBatch(1);
      const deadline = Date.now() + GIVE_UP_MS;
      for (;;) {
        const { rows } = await sql.query<{ between: number; ms: number }>(
          `SELECT (extract(epoch FROM q.closed_at - w.created_at) * 1000)::float8 AS ms,
                  (SELECT count(*)::int FROM runs r WHERE r.room_id = $2 AND r.closed_at BETWEEN w.created_at AND q.closed_at)
                    AS between
           FROM runs q JOIN wakes w ON w.id = q.wake_id
           WHERE q.room_id = $1 AND q.closed_at IS NOT NULL ORDER BY q.closed_at DESC LIMIT 1`,
          [quiet.id, loud.id],
        );
        const { rows: ended } = await sql.query<{ n: number }>(
          `SELECT count(*)::int AS n FROM runs WHERE room_id = $1 AND closed_at IS NOT NULL`,
          [quiet.id],
        );
        const [row] = rows;
        if (row && ended[0]?.n === n + 1) {
          runsBetween.push(row.between);
          replyMs.push(Math.round(row.ms));
          break;
        }
        if (Date.now() > deadline) throw new Error('the single message got no reply');
        await sleep(25);
      }
    }
    return {
      company_limit: limit,
      runs_between: runsBetween,
      median_runs_between: median(runsBetween),
      reply_ms: replyMs,
    };
  } finally {
    await worker.stop();
  }
}
