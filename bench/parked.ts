// What runs cost that wait for somebody's yes: a worker's memory, connections and CPU with none, after as many that did not
// wait, and with many of them, a worker that starts again among them, and all of them decided at once.

import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { connectDatabase } from '../prisma/client';
import { decideHeldAction } from '../prisma/store/runs/held-actions/decide';
import { wakeWorkflowId } from '../workflows/contract';
import type { Ground } from './ground';
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
 * What nobody needs any more is soon collected and given back: left to itself, Node lets hundreds of megabytes of it lie, and
 * glibc, with an arena a thread, tens more. Memory is then what is held, and no more.
 */
const NO_GARBAGE = { NODE_OPTIONS: '--max-old-space-size=80 --max-semi-space-size=4', MALLOC_ARENA_MAX: '1' };
/** Of runs that do not wait: a worker has grown to what it will be long before. */
const ORDINARY_LIMIT = 1_000;
/** Executions that are looked at one by one, for what they hold in Temporal. */
const SAMPLE = 50;
/** Without any change. */
const GIVE_UP_MS = 120_000;

interface Standing {
  readonly rss_mb: number | null;
  readonly connections: number;
  /** CPU milliseconds a second. */
  readonly worker_cpu: number | null;
}

export interface Parked {
  readonly runs: number;
  /**
   * With no run at all; after as many runs that did not wait, at most a thousand; of another worker that has brought all to
   * their wait; of one started among them; and of that one when none is left.
   */
  readonly none: Standing;
  readonly ordinary: Standing;
  readonly parked: Standing;
  readonly restarted: Standing;
  readonly done: Standing;
  /** Of a sample of the executions, while parked. */
  readonly pending_activities: number;
  readonly timers: number;
  /** History events that the restart added to the sample: a run taken up would add some. */
  readonly events_by_restart: number;
  readonly decided_and_done_seconds: number;
  readonly carried_out: number;
  readonly carried_out_twice: number;
}

/** Parks this many runs, and decides them all. */
export async function measureParked(
  ground: Ground,
  { runs, settleMs, seconds }: { readonly runs: number; readonly settleMs: number; readonly seconds: number },
  progress: Progress,
): Promise<Parked> {
  progress.begin(`${runs} parked runs`);
  const room = await createRoom(ground, PARKED_DATABASE, null);
  const sql = await ground.connect(PARKED_DATABASE);
  const startWorker = (): Promise<BenchProcess> =>
    ground.start('the worker of parked runs', WORKER_MAIN, {
      DATABASE_URL: ground.urlOf(PARKED_DATABASE, 'bench_worker'),
      TASK_QUEUE,
      WORKER_PORT: '0',
      ...NO_GARBAGE,
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
  const stand = async (worker: BenchProcess): Promise<Standing> => {
    progress.at('waiting until it has done its afterwork, and given memory back');
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
  const none = await stand(worker);
  const post = async (messages: number): Promise<void> => {
    for (let posted = 0; posted < messages; posted += BATCH) await room.postBatch(Math.min(BATCH, messages - posted));
  };
  const before = Math.min(runs, ORDINARY_LIMIT);
  await post(before);
  await untilCount('runs ended', `SELECT count(*)::int AS n FROM runs WHERE state = 'closed'`, before);
  const ordinary = await stand(worker);
  await worker.stop();

  worker = await startWorker();
  await sql.query(`UPDATE room_agents SET right_reply = 'hold'`);
  await post(runs);
  await untilCount('runs parked', `SELECT count(*)::int AS n FROM runs WHERE parked_at IS NOT NULL`, runs);
  const parked = await stand(worker);
  const parkedSample = await lookAt(ground, sql);
  await worker.stop();
  worker = await startWorker();
  const restarted = await stand(worker);
  const restartedSample = await lookAt(ground, sql);

  const startedAt = performance.now();
  await decideAll(ground);
  await untilCount('runs ended', `SELECT count(*)::int AS n FROM runs WHERE state = 'closed'`, before + runs);
  const took = (performance.now() - startedAt) / 1_000;
  const done = await stand(worker);
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

async function lookAt(
  ground: Ground,
  sql: Awaited<ReturnType<Ground['connect']>>,
): Promise<{ activities: number; timers: number; events: number }> {
  const { rows } = await sql.query<{ agent: string; message: string }>(
    `SELECT agent_id AS agent, message_id AS message FROM runs WHERE parked_at IS NOT NULL ORDER BY id LIMIT ${SAMPLE}`,
  );
  const seen = { activities: 0, timers: 0, events: 0 };
  for (const { agent, message } of rows) {
    const handle = ground.temporal.client.workflow.getHandle(wakeWorkflowId(agent, message));
    const { raw, historyLength } = await handle.describe();
    seen.activities += raw.pendingActivities?.length ?? 0;
    seen.events += historyLength;
    const { events } = await handle.fetchHistory();
    seen.timers += (events ?? []).filter((event) => event.timerStartedEventAttributes).length;
  }
  return seen;
}

/** Everything that is held, at once: as many at a time as the door's pool has connections. */
async function decideAll(ground: Ground): Promise<void> {
  const poolSize = 10;
  const database = await connectDatabase(ground.urlOf(PARKED_DATABASE), {
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

/** Memory of a process in megabytes, as Linux counts it. Null everywhere else. */
function rssOf(pid: number): number | null {
  try {
    const kilobytes = /^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1];
    return kilobytes === undefined ? null : Math.round(Number(kilobytes) / 1_024);
  } catch {
    return null;
  }
}
