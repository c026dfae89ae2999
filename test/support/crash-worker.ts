// A worker process that ends or holds runs at the points that its environment names. Otherwise it is the production worker.
//
//   CRASH_POINT   one point, or several separated by commas; `point@agent` waits for a run of that agent
//   CRASH_ACTION  kill (the default): SIGKILL itself · stop: send `reached` to the parent and hold the run
//   CRASH_AFTER   the number of passes of a point before it takes effect; 0 by default
//   CRASH_TRANSACTION_SECONDS  the limit of an activity's transaction in Postgres; the production limit by default
//   CRASH_CUT     after_commit: a released run loses its connection at its first COMMIT, after the COMMIT is done
//
// Each point holds one run. With `stop`, a held run does nothing more in this process: all other work that Temporal hands
// out for it waits too. Other runs continue.

import { AsyncLocalStorage } from 'node:async_hooks';
import type { ClientRequest } from 'node:http';
import { subscribe } from 'node:diagnostics_channel';
import { Context } from '@temporalio/activity';
import type { InjectedSinks } from '@temporalio/worker';
import type { Activities, ActivityDeps } from '../../activities';
import { connectDatabase } from '../../prisma/client';
import type { Database } from '../../prisma/store/db/database';
import type { SqlTx } from '../../prisma/store/db/transaction';
import { buildWorkflowBundle } from '../../worker/bundle';
import { runWorkerProcess } from '../../worker/process-main';
import type { Seams } from '../../worker/service';
import { openCommitCutter } from './commit-cutter';
import { InterceptedDatabase } from './intercepted-database';
import type { CrashSinks } from './crash-interceptor';
import { ALL_CRASH_POINTS, CRASH_ACTIONS, type CrashAction, type CrashPoint } from './crash-points';

interface Trap {
  readonly point: CrashPoint;
  readonly agent: string | null;
  toPass: number;
  sprung: boolean;
}

type Pass = (point: string, workflowId: string) => Promise<void>;

/** True once for every run that was held and released. */
type TakeReleased = (workflowId: string) => boolean;

/** Cuts the connection of this transaction at its COMMIT, if its run was held and released. */
type CutWhenDue = (tx: SqlTx, workflowId: string, commit: { activity: string; transaction: number }) => Promise<void>;

function readTraps(env: NodeJS.ProcessEnv): Trap[] {
  const after = Number(env['CRASH_AFTER'] ?? 0);
  const names = (env['CRASH_POINT'] ?? '').split(',').filter(Boolean);
  return names.map((name) => {
    const [text, agent = null] = name.split('@');
    const point = ALL_CRASH_POINTS.find((known) => known === text);
    if (!point) throw new Error(`CRASH_POINT: "${text}" is not one of ${ALL_CRASH_POINTS.join(', ')}`);
    return { point, agent, toPass: after, sprung: false };
  });
}

function readAction(env: NodeJS.ProcessEnv): CrashAction {
  const action = CRASH_ACTIONS.find((known) => known === (env['CRASH_ACTION'] ?? 'kill'));
  if (!action) throw new Error(`CRASH_ACTION is not one of ${CRASH_ACTIONS.join(', ')}`);
  return action;
}

/** `pass` is called at every point. It returns immediately at a point that holds no run. */
function createPass(
  traps: readonly Trap[],
  action: CrashAction,
): { pass: Pass; passSignal: Pass; takeReleased: TakeReleased } {
  const held = new Map<string, Promise<void>>();
  const releasedRuns = new Set<string>();
  let release = (): void => {};
  const released = new Promise<void>((resolve) => {
    release = resolve;
  });
  process.on('message', (message) => {
    if (typeof message !== 'object' || message === null || !('type' in message) || message.type !== 'go') return;
    for (const trap of traps) trap.sprung = true;
    for (const workflowId of held.keys()) releasedRuns.add(workflowId);
    held.clear();
    release();
  });
  const spring = (point: string, workflowId: string): boolean => {
    const trap = traps.find(
      (each) =>
        !each.sprung && each.point === point && (each.agent === null || workflowId.startsWith(`wake/${each.agent}/`)),
    );
    if (!trap) return false;
    if (trap.toPass > 0) {
      trap.toPass -= 1;
      return false;
    }
    trap.sprung = true;
    if (action === 'kill') process.kill(process.pid, 'SIGKILL');
    process.send?.({ type: 'reached', point: trap.point, workflowId });
    return true;
  };
  const pass: Pass = async (point, workflowId) => {
    const waiting = held.get(workflowId);
    if (waiting) return waiting;
    if (!spring(point, workflowId)) return;
    held.set(workflowId, released);
    return released;
  };
  // Holds the dispatcher; the run continues with the signals that it has received.
  const passSignal: Pass = async (point, workflowId) => {
    if (!spring(point, workflowId)) return;
    await released;
    releasedRuns.add(workflowId);
  };
  return { pass, passSignal, takeReleased: (workflowId) => releasedRuns.delete(workflowId) };
}

function inActivity(): { activity: string; workflowId: string; context: Context } {
  const context = Context.current();
  const { activityType, workflowExecution } = context.info;
  return { activity: activityType, workflowId: workflowExecution?.workflowId ?? '', context };
}

/** The windows of an activity's transactions, in their order. Other transactions (the count of a fenced attempt) have none. */
function windowsOf(activity: string, committed: number): { inside: string; committed: string } | null {
  if (committed === 0) return { inside: 'inside', committed: 'committed' };
  if (activity === 'callModel' && committed === 1) return { inside: 'reply_inside', committed: 'reply_committed' };
  return null;
}

/** A claim that is not simple needs a second transaction; its first transaction has written nothing. */
async function hasClaim(tx: SqlTx, workflowId: string): Promise<boolean> {
  const rows = await tx.$queryRaw<unknown[]>`SELECT 1 AS found FROM agent_run_locks WHERE workflow_id = ${workflowId}`;
  return rows.length > 0;
}

function watchTransactions(db: Database, pass: Pass, cutWhenDue: CutWhenDue | null): Database {
  const commits = new WeakMap<Context, number>();
  return new InterceptedDatabase(db, async (work, run) => {
    const { activity, workflowId, context } = inActivity();
    const committed = commits.get(context) ?? 0;
    const windows = windowsOf(activity, committed);
    let counts = true;
    const result = await run(async (tx) => {
      const worked = await work(tx);
      counts = activity !== 'claimMessage' || (await hasClaim(tx, workflowId));
      if (!counts) return worked;
      if (windows) {
        // Waits for the answers of pipelined statements, so that all writes are done when the run is held.
        await tx.$queryRaw`SELECT 1 AS one`;
        await pass(`${activity}:${windows.inside}`, workflowId);
      }
      await cutWhenDue?.(tx, workflowId, { activity, transaction: committed + 1 });
      return worked;
    });
    if (!counts) return result;
    commits.set(context, committed + 1);
    if (windows) await pass(`${activity}:${windows.committed}`, workflowId);
    return result;
  });
}

/** Holds the run after the operating system has the last byte of the request and before the answer is returned. */
function watchRequests(requestReply: ActivityDeps['requestReply'], pass: Pass): ActivityDeps['requestReply'] {
  const whenSent = new AsyncLocalStorage<() => void>();
  subscribe('http.client.request.start', (message) => {
    const sent = whenSent.getStore();
    if (sent) (message as { request: ClientRequest }).request.once('finish', sent);
  });
  return async (...args) => {
    const { workflowId } = inActivity();
    let holding = Promise.resolve();
    const answer = await whenSent.run(
      () => {
        holding = pass('callModel:sent', workflowId);
      },
      () => requestReply(...args),
    );
    await holding;
    return answer;
  };
}

function watchActivities(activities: Activities, pass: Pass): Activities {
  const watched = Object.entries(activities).map(([name, work]) => [
    name,
    async (input: never) => {
      await pass(`${name}:before`, inActivity().workflowId);
      return work(input);
    },
  ]);
  return Object.fromEntries(watched) as Activities;
}

/** A pool with the transaction limit of CRASH_TRANSACTION_SECONDS, or null if the variable is not set. */
async function connectPatiently(env: NodeJS.ProcessEnv): Promise<Database | null> {
  const seconds = env['CRASH_TRANSACTION_SECONDS'];
  if (seconds === undefined) return null;
  const transactionTimeoutMs = Number(seconds) * 1_000;
  return connectDatabase(env['DATABASE_URL'] ?? '', {
    poolSize: Number(env['DATABASE_POOL_SIZE'] ?? 10),
    lockTimeoutMs: 3_000,
    statementTimeoutMs: 5_000,
    transactionTimeoutMs,
    applicationName: 'durable-room-crash-worker',
  });
}

/** The environment with the connection to Postgres through a commit cutter, and the function that cuts. */
async function openCut(
  given: NodeJS.ProcessEnv,
  takeReleased: TakeReleased,
): Promise<{ env: NodeJS.ProcessEnv; cutWhenDue: CutWhenDue | null }> {
  const wanted = given['CRASH_CUT'];
  if (wanted === undefined) return { env: given, cutWhenDue: null };
  if (wanted !== 'after_commit') throw new Error('CRASH_CUT must be after_commit or not set');
  const url = new URL(given['DATABASE_URL'] ?? '');
  const cutter = await openCommitCutter(Number(url.port));
  url.port = String(cutter.port);
  return {
    env: { ...given, DATABASE_URL: url.toString() },
    cutWhenDue: async (tx, workflowId, commit) => {
      if (!takeReleased(workflowId)) return;
      const [row] = await tx.$queryRaw<{ port: number }[]>`SELECT inet_client_port() AS port`;
      cutter.cutAtCommit(row?.port ?? 0, wanted);
      process.send?.({ type: 'cut', workflowId, ...commit });
    },
  };
}

async function main(): Promise<void> {
  const traps = readTraps(process.env);
  const { pass, passSignal, takeReleased } = createPass(traps, readAction(process.env));
  const { env, cutWhenDue } = await openCut(process.env, takeReleased);
  const sinks: InjectedSinks<CrashSinks> = {
    crash: {
      acknowledged: {
        fn: (info, activity) => pass(`${activity}:acknowledged`, info.workflowId),
        callDuringReplay: false,
      },
    },
  };
  const betweenSteps = traps.some((trap) => trap.point.endsWith(':acknowledged'));
  const patientDb = await connectPatiently(env);
  const seams: Seams = {
    deps: (deps) => ({
      ...deps,
      db: watchTransactions(patientDb ?? deps.db, pass, cutWhenDue),
      requestReply: watchRequests(deps.requestReply, pass),
    }),
    activities: (activities) => watchActivities(activities, pass),
    sendSignal: async (signal, send) => {
      if (signal.kind === 'decision') await passSignal('decision:before', signal.workflowId);
      await send();
      if (signal.kind === 'decision') await passSignal('decision:sent', signal.workflowId);
    },
    ...(betweenSteps ? { sinks, bundle: await buildWorkflowBundle([require.resolve('./crash-interceptor')]) } : {}),
  };
  await runWorkerProcess(env, seams);
}

main().catch((error: unknown) => {
  console.error(error instanceof Error ? error.message : error);
  process.exit(1);
});
