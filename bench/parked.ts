// The cost of parked runs, which wait for approval: a worker's memory, connections and CPU without runs, after ordinary runs,
// with many parked runs, after a restart among them, and after all are decided at once.

import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { connectDatabase } from '../prisma/client';
import { decideHeldAction } from '../prisma/store/runs/held-actions/decide';
import { wakeWorkflowId } from '../workflows/contract';
import type { BenchEnvironment } from './environment';
import type { BenchProcess } from './processes';
import type { Progress } from './progress';
import { createRoom } from './room';
import { PARKED_DATABASE } from './sides';
import { round } from './statistics';
import { cpuMsOf } from './cpu';
import { COMPILED } from '../test/support/compiled';

const WORKER_MAIN = join(COMPILED, 'worker', 'main.js');
const TASK_QUEUE = 'bench-parked';
const BATCH = 50;
/**
 * Makes Node and glibc release unused memory soon, so that the measured memory is the memory in use. By default Node keeps
 * hundreds of unused megabytes, and glibc, with one arena per thread, tens more.
 */
const LOW_GARBAGE_ENV = { NODE_OPTIONS: '--max-old-space-size=80 --max-semi-space-size=4', MALLOC_ARENA_MAX: '1' };
/** The most ordinary runs; a worker's memory stops growing long before. */
const ORDINARY_LIMIT = 1_000;
/** The number of executions whose activities, timers and history are read from Temporal. */
const SAMPLE = 50;
/** The longest time without progress. */
const GIVE_UP_MS = 120_000;

interface WorkerUsage {
  readonly rss_mb: number | null;
  readonly connections: number;
  /** CPU milliseconds per second. */
  readonly worker_cpu: number | null;
}

export interface Parked {
  readonly runs: number;
  /**
   * `none`: without runs. `ordinary`: after the same number of ordinary runs, at most ORDINARY_LIMIT. `parked`: another worker
   * that parked all runs. `restarted`: a worker that started after that. `done`: the same worker after all runs ended.
   */
  readonly none: WorkerUsage;
  readonly ordinary: WorkerUsage;
  readonly parked: WorkerUsage;
  readonly restarted: WorkerUsage;
  readonly done: WorkerUsage;
  /** In a sample of the parked executions. */
  readonly pending_activities: number;
  readonly timers: number;
  /** History events that the restart added to the sample. A resumed run would add some. */
  readonly events_by_restart: number;
  readonly decided_and_done_seconds: number;
  readonly carried_out: number;
  readonly carried_out_twice: number;
}

/** Parks this many runs and then decides all of them. */
export async function measureParked(
  environment: BenchEnvironment,
  { runs, settleMs, seconds }: { readonly runs: number; readonly settleMs: number; readonly seconds: number },
  progress: Progress,
): Promise<Parked> {
  progress.begin(`${runs} parked runs`);
  const room = await createRoom(environment, PARKED_DATABASE, null);
  const sql = await environment.connect(PARKED_DATABASE);
  const startWorker = (): Promise<BenchProcess> =>
    environment.start('the worker of parked runs', WORKER_MAIN, {
      DATABASE_URL: environment.urlOf(PARKED_DATABASE, 'bench_worker'),
      TASK_QUEUE,
      WORKER_PORT: '0',
      ...LOW_GARBAGE_ENV,
    });
  const count = async (query: string): Promise<number> => {
    const { rows } = await sql.query<{ n: number }>(query);
    return rows[0]?.n ?? 0;
  };
  const untilCount = async (what: string, query: string, wanted: number): Promise<void> => {
    let last = -1;
    let changedAt = Date.now();
    for (;;) {
      const found = await count(query);
      progress.at(`${found} of ${wanted} ${what}`);
      if (found >= wanted) return;
      if (found !== last) [last, changedAt] = [found, Date.now()];
      else if (Date.now() - changedAt > GIVE_UP_MS) throw new Error(`only ${found} of ${wanted} ${what}`);
      await sleep(200);
    }
  };
  const measureWorker = async (worker: BenchProcess): Promise<WorkerUsage> => {
    progress.at('waiting for pending work and the release of memory');
    await sleep(settleMs);
    const before = cpuMsOf(worker.pid);
    await sleep(seconds * 1_000);
    const after = cpuMsOf(worker.pid);
    return {
      rss_mb: rssOf(worker.pid),
      connections: await count(
        `SELECT count(*)::int AS n FROM pg_stat_activity WHERE datname = current_database() AND usename = 'bench_worker'`,
      ),
      worker_cpu: before === null || after === null ? null : round((after - before) / seconds),
    };
  };

  let worker = await startWorker();
  const none = await measureWorker(worker);
  const post = async (messages: number): Promise<void> => {
    for (let posted = 0; posted < messages; posted += BATCH) await room.postBatch(Math.min(BATCH, messages - posted));
  };
  const before = Math.min(runs, ORDINARY_LIMIT);
  await post(before);
  await untilCount('runs ended', `SELECT count(*)::int AS n FROM runs WHERE state = 'closed'`, before);
  const ordinary = await measureWorker(worker);
  await worker.stop();

  worker = await startWorker();
  await sql.query(`UPDATE room_agents SET right_reply = 'hold'`);
  await post(runs);
  await untilCount('runs parked', `SELECT count(*)::int AS n FROM runs WHERE parked_at IS NOT NULL`, runs);
  const parked = await measureWorker(worker);
  const parkedSample = await inspectSample(environment, sql);
  await worker.stop();
  worker = await startWorker();
  const restarted = await measureWorker(worker);
  const restartedSample = await inspectSample(environment, sql);

  const startedAt = performance.now();
  await decideAll(environment);
  await untilCount('runs ended', `SELECT count(*)::int AS n FROM runs WHERE state = 'closed'`, before + runs);
  const took = (performance.now() - startedAt) / 1_000;
  const done = await measureWorker(worker);
  const { rows } = await sql.query<{ once: number; more: number }>(
    `SELECT count(*) FILTER (WHERE n = 1)::int AS once, count(*) FILTER (WHERE n > 1)::int AS more
     FROM (SELECT count(m.id) AS n FROM held_actions h JOIN messages m ON m.run_id = h.run_id GROUP BY h.run_id) x`,
  );
  await worker.stop();
  return {
    runs,
    none,
    ordinary,
    parked,
    restarted,
    done,
    pending_activities: parkedSample.activities,
    timers: parkedSample.timers,
    events_by_restart: restartedSample.events - parkedSample.events,
    decided_and_done_seconds: round(took),
    carried_out: rows[0]?.once ?? 0,
    carried_out_twice: rows[0]?.more ?? 0,
  };
}

async function inspectSample(
  environment: BenchEnvironment,
  sql: Awaited<ReturnType<BenchEnvironment['connect']>>,
): Promise<{ activities: number; timers: number; events: number }> {
  const { rows } = await sql.query<{ agent: string; message: string }>(
    `SELECT agent_id AS agent, message_id AS message FROM runs WHERE parked_at IS NOT NULL ORDER BY id LIMIT ${SAMPLE}`,
  );
  const totals = { activities: 0, timers: 0, events: 0 };
  for (const { agent, message } of rows) {
    const handle = environment.temporal.client.workflow.getHandle(wakeWorkflowId(agent, message));
    const { raw, historyLength } = await handle.describe();
    totals.activities += raw.pendingActivities?.length ?? 0;
    totals.events += historyLength;
    const { events } = await handle.fetchHistory();
    totals.timers += (events ?? []).filter((event) => event.timerStartedEventAttributes).length;
  }
  return totals;
}

/** Approves all held actions, with as many concurrent decisions as the pool has connections. */
async function decideAll(environment: BenchEnvironment): Promise<void> {
  const poolSize = 10;
  const database = await connectDatabase(environment.urlOf(PARKED_DATABASE), {
    poolSize,
    lockTimeoutMs: 5_000,
    statementTimeoutMs: 10_000,
    transactionTimeoutMs: 15_000,
    applicationName: 'durable-room-bench',
  });
  try {
    const db = database;
    const held = await db.heldAction.findMany({ where: { state: 'held' } });
    const decideNext = async (): Promise<void> => {
      for (let action = held.pop(); action !== undefined; action = held.pop()) {
        const { id, sha256: hash, companyId } = action;
        const by = { keyId: 'key', name: 'Ada', companyId };
        await db.transaction((tx) => decideHeldAction(tx, by, id, { decision: 'approve', hash }));
      }
    };
    await Promise.all(Array.from({ length: poolSize }, decideNext));
  } finally {
    await database.close();
  }
}

/** Resident memory of a process in megabytes, from Linux' /proc. Null on other platforms. */
function rssOf(pid: number): number | null {
  try {
    const kilobytes = /^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1];
    return kilobytes === undefined ? null : Math.round(Number(kilobytes) / 1_024);
  } catch {
    return null;
  }
}
