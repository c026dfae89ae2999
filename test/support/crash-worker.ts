// A worker process that dies, or stands still, where its environment says. Otherwise it is the worker of production.
//
//   CRASH_POINT   one point, or several divided by commas; `point@agent` waits for a run of that agent
//   CRASH_ACTION  kill (the default): SIGKILL itself · stop: send `reached` to the parent and stand there
//   CRASH_AFTER   how many times a point is passed before it counts; 0 by default
//   CRASH_TRANSACTION_SECONDS  how long Postgres lets a transaction of an activity stand, if not as in production
//   CRASH_CUT     after_commit: a run that stood and is let go loses its connection at its first COMMIT, which is done
//
// Each point stops one run. With `stop`, a run that stands at its point does nothing more in this process: whatever else
// Temporal hands out for it stands too. Other runs go on.

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

/** True once for every run that stood and was let go. */
type TakeLetGo = (workflowId: string) => boolean;

/** Cuts the connection of this transaction at its COMMIT when its run is due. */
type CutWhenDue = (tx: SqlTx, workflowId: string, commit: { activity: string; transaction: number }) => Promise<void>;

function readTraps(env: NodeJS.ProcessEnv): Trap[] {
  const after = Number(env['CRASH_AFTER'] ?? 0);
  const names = (env['CRASH_POINT'] ?? '').split(',').filter(Boolean);
  return names.map((name) => {
    const [text, agent = null] = name.split('@');
    const point = ALL_CRASH_POINTS.find((known) => known === text);
    if (!point) throw new Error(`CRASH_POINT: "${text}" is none of ${ALL_CRASH_POINTS.join(', ')}`);
    return { point, agent, toPass: after, sprung: false };
  });
}

function readAction(env: NodeJS.ProcessEnv): CrashAction {
  const action = CRASH_ACTIONS.find((known) => known === (env['CRASH_ACTION'] ?? 'kill'));
  if (!action) throw new Error(`CRASH_ACTION is none of ${CRASH_ACTIONS.join(', ')}`);
  return action;
}

/** `pass` is called wherever a point is; returns at once where nothing is to happen. */
function createPass(
  traps: readonly Trap[],
  action: CrashAction,
): { pass: Pass; passSignal: Pass; takeLetGo: TakeLetGo } {
  const standing = new Map<string, Promise<void>>();
  const letGo = new Set<string>();
  let goOn = (): void => {};
  const released = new Promise<void>((resolve) => {
    goOn = resolve;
  });
  process.on('message', (message) => {
    if (typeof message !== 'object' || message === null || !('type' in message) || message.type !== 'go') return;
    for (const trap of traps) trap.sprung = true;
    for (const workflowId of standing.keys()) letGo.add(workflowId);
    standing.clear();
    goOn();
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
    const stands = standing.get(workflowId);
    if (stands) return stands;
    if (!spring(point, workflowId)) return;
    standing.set(workflowId, released);
    return released;
  };
  // The dispatcher stands; its run goes on as far as it was told.
  const passSignal: Pass = async (point, workflowId) => {
    if (!spring(point, workflowId)) return;
    await released;
    letGo.add(workflowId);
  };
  return { pass, passSignal, takeLetGo: (workflowId) => letGo.delete(workflowId) };
}

function inActivity(): { activity: string; workflowId: string; context: Context } {
  const context = Context.current();
  const { activityType, workflowExecution } = context.info;
  return { activity: activityType, workflowId: workflowExecution?.workflowId ?? '', context };
}

/** What the transactions of an activity are for, in their order. Others (a fenced attempt's count) open no window. */
function windowsOf(activity: string, committed: number): { inside: string; committed: string } | null {
  if (committed === 0) return { inside: 'inside', committed: 'committed' };
  if (activity === 'callModel' && committed === 1) return { inside: 'reply_inside', committed: 'reply_committed' };
  return null;
}

/** A claim that is not as simple as most comes in a second transaction, and the first has written nothing. */
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
        // What was sent ahead has been answered then: it stands with all its writes done.
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

/** Waits, once the request's last byte is with the operating system, before its answer is handed on. */
function watchRequests(requestReply: ActivityDeps['requestReply'], pass: Pass): ActivityDeps['requestReply'] {
  const whenSent = new AsyncLocalStorage<() => void>();
  subscribe('http.client.request.start', (message) => {
    const sent = whenSent.getStore();
    if (sent) (message as { request: ClientRequest }).request.once('finish', sent);
  });
  return async (...args) => {
    const { workflowId } = inActivity();
    let stand = Promise.resolve();
    const answer = await whenSent.run(
      () => {
        stand = pass('callModel:sent', workflowId);
      },
      () => requestReply(...args),
    );
    await stand;
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

/** A pool whose transactions may stand for as long as the environment says, or null when it says nothing. */
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

/** The environment with the way to Postgres led through a cutter, and who cuts. */
async function openCut(
  given: NodeJS.ProcessEnv,
  takeLetGo: TakeLetGo,
): Promise<{ env: NodeJS.ProcessEnv; cutWhenDue: CutWhenDue | null }> {
  const wanted = given['CRASH_CUT'];
  if (wanted === undefined) return { env: given, cutWhenDue: null };
  if (wanted !== 'after_commit') throw new Error('CRASH_CUT is after_commit, or not set');
  const url = new URL(given['DATABASE_URL'] ?? '');
  const cutter = await openCommitCutter(Number(url.port));
  url.port = String(cutter.port);
  return {
    env: { ...given, DATABASE_URL: url.toString() },
    cutWhenDue: async (tx, workflowId, commit) => {
      if (!takeLetGo(workflowId)) return;
      const [row] = await tx.$queryRaw<{ port: number }[]>`SELECT inet_client_port() AS port`;
      cutter.cutAtCommit(row?.port ?? 0, wanted);
      process.send?.({ type: 'cut', workflowId, ...commit });
    },
  };
}

async function main(): Promise<void> {
  const traps = readTraps(process.env);
  const { pass, passSignal, takeLetGo } = createPass(traps, readAction(process.env));
  const { env, cutWhenDue } = await openCut(process.env, takeLetGo);
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
