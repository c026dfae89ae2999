// What one company's flood costs another's single message: how many of the flood's runs end between that message's commit
// and its reply's, with the cap of runs in flight as it is by default, and with none.

import { randomBytes } from 'node:crypto';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Ground } from './ground';
import type { Progress } from './progress';
import { createRoom } from './room';
import { median } from './statistics';
import { COMPILED } from '../test/support/compiled';

const WORKER_MAIN = join(COMPILED, 'worker', 'main.js');

/** In which the flood fills every place that it gets, before the other company posts. */
const FILL_MS = 2_000;
const GIVE_UP_MS = 90_000;

export interface Fairness {
  readonly flood: number;
  /** A place a sample: runs of the flood that ended while the other's message waited for its reply. */
  readonly capped: FairnessRound;
  readonly uncapped: FairnessRound;
}

export interface FairnessRound {
  readonly company_limit: number;
  readonly runs_between: readonly number[];
  readonly median_runs_between: number;
  readonly reply_ms: readonly number[];
}

export async function createFairnessDatabases(ground: Ground): Promise<void> {
  for (const name of ['capped', 'uncapped']) await ground.createDatabase(databaseOf(name));
}

function databaseOf(name: string): string {
  return `bench_fairness_${name}`;
}

export async function measureFairness(
  ground: Ground,
  options: { flood: number; samples: number },
  progress: Progress,
): Promise<Fairness> {
  // As an operator finds it; and so high that it is none.
  const capped = await measureRound(ground, 'capped', {}, 20, options, progress);
  const none = 100_000;
  const limit = { DISPATCH_COMPANY_LIMIT: String(none) };
  const uncapped = await measureRound(ground, 'uncapped', limit, none, options, progress);
  return { flood: options.flood, capped, uncapped };
}

async function measureRound(
  ground: Ground,
  name: string,
  env: Record<string, string>,
  limit: number,
  { flood, samples }: { flood: number; samples: number },
  progress: Progress,
): Promise<FairnessRound> {
  progress.begin(`a flood of ${flood} and a single message, ${name}`);
  const database = databaseOf(name);
  const sql = await ground.connect(database);
  const [loud, quiet] = [
    await createRoom(ground, database, null),
    await createRoom(ground, database, null, 'tamarack'),
  ];
  const worker = await ground.start(`the worker of ${name}`, WORKER_MAIN, {
    DATABASE_URL: ground.urlOf(database, 'bench_worker'),
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
