// One way under test: its database, its task queue, one worker process that is killed, and a spare worker with loaded code that
// replaces it.

import { join } from 'node:path';
import type { WorkflowHandle } from '@temporalio/client';
import { wakeWorkflowId } from '../../workflows/contract';
import { readHistory, type HistoryFacts } from './history';
import { openJobRooms, type JobRoom, type JobRooms, type RunFacts } from './job-rooms';
import { labWorkflowId, type LabInput } from './messages';
import { JOB_TEXT, CONTINUE_TEXT, modelUrlOf, requestKey, type LabModel } from './model-script';
import { actedTwice, isFinished, lostSteps, type Observation, type PickedUpBy } from './observation';
import type { Point } from './points';
import type { LabDatabase, LabServers } from './servers';
import { QUIET_LOOPS, workerTimes, type LabTimes } from './settings';
import { readDeaths, startVictim, type Victim } from './victim';
import { isRoomWay, type Way } from './ways';

/** A started job. */
export interface BegunJob {
  readonly room: JobRoom;
  readonly messageId: string;
  readonly handle: WorkflowHandle;
}

export interface Lane {
  readonly way: Way;
  readonly rooms: JobRooms;
  readonly database: LabDatabase;
  /** Starts a worker if none runs. `quiet`: its loops poll rarely, so that its statements are those of jobs. */
  startWorker(quiet?: boolean): Promise<void>;
  begin(room: JobRoom): Promise<BegunJob>;
  /** Resolves with true when the job has ended, with false after the time limit. */
  settle(job: BegunJob): Promise<boolean>;
  /** Kills the worker with one job at each of these points, starts the spare, and counts the effects of the jobs. */
  die(points: readonly Point[]): Promise<Observation[]>;
  stop(): Promise<void>;
}

/** An armed worker whose jobs have not reached their points after this time is killed by its pid. */
const ARRIVE_MS = 30_000;
const POLL_MS = 40;
/** One kill fails one attempt. */
const ATTEMPTS_A_KILL_FAILS = 1;

export async function openLane(
  way: Way,
  servers: LabServers,
  shared: { masterKeys: string; bundle: string; model: LabModel; times: LabTimes },
): Promise<Lane> {
  const { client } = servers;
  const { times } = shared;
  const database = await servers.createDatabase(way);
  const modelUrl = modelUrlOf(servers.model, way);
  const rooms = await openJobRooms(way, { url: database.url, masterKeys: shared.masterKeys, modelUrl });
  const taskQueue = `lab-${way}-${Date.now()}`;
  const deaths = join(servers.scratch, `deaths-${way}.jsonl`);
  let victim: Victim | null = null;
  let spare: Victim | null = null;
  const waiting = new Set<AbortController>();
  let stopped = false;

  const launch = (quiet: boolean): Victim =>
    startVictim({
      ...(process.env['PATH'] === undefined ? {} : { PATH: process.env['PATH'] }),
      DATABASE_URL: database.workerUrl,
      TEMPORAL_ADDRESS: servers.temporalAddress,
      TASK_QUEUE: taskQueue,
      MASTER_KEYS: shared.masterKeys,
      WORKER_PORT: '0',
      LOG_LEVEL: 'silent',
      ...workerTimes(times),
      ...(quiet ? QUIET_LOOPS : {}),
      LAB_WAY: way,
      LAB_BUNDLE: shared.bundle,
      LAB_DEATHS: deaths,
    });

  const startWorker = async (quiet = false): Promise<void> => {
    if (stopped) throw new Error('the lab was stopped');
    if (victim === null) {
      victim = spare ?? launch(quiet);
      spare = null;
    }
    await victim.begin();
  };

  const begin = async (room: JobRoom): Promise<BegunJob> => {
    const messageId = await rooms.post(room, JOB_TEXT);
    if (isRoomWay(way)) {
      return { room, messageId, handle: client.workflow.getHandle(wakeWorkflowId(room.agentId, messageId)) };
    }
    const job = { ...room, messageId };
    const input: LabInput = { ...job, attemptMs: times.attemptMs };
    const workflowId = labWorkflowId(job);
    const handle = await client.workflow.start(`${way}Job`, { taskQueue, workflowId, args: [input] });
    return { room, messageId, handle };
  };

  // A call that is still waiting when the connection closes would be an unhandled rejection.
  const waitForEnd = async (handle: WorkflowHandle): Promise<void> => {
    const call = new AbortController();
    waiting.add(call);
    try {
      await client.withAbortSignal(call.signal, () => handle.result());
    } finally {
      waiting.delete(call);
    }
  };

  const settle = (job: BegunJob): Promise<boolean> =>
    within(times.settleMs, async (isOver) => {
      while (isRoomWay(way) && (await rooms.findRun(job.messageId)) === null && !isOver()) await pause(POLL_MS);
      if (!isOver()) await waitForEnd(job.handle);
    });

  const askToContinue = async (job: BegunJob): Promise<Observation['next']> => {
    const messageId = await rooms.post(job.room, CONTINUE_TEXT);
    const handle = client.workflow.getHandle(wakeWorkflowId(job.room.agentId, messageId));
    await settle({ ...job, messageId, handle });
    const counts = await rooms.count(job.room);
    const run = await rooms.findRun(messageId);
    return {
      completedLater: isFinished(counts) && counts.memory === 1 && counts.tasks === 1,
      ending: run?.ending ?? 'open',
    };
  };

  const observe = async (job: BegunJob, point: Point, death: Death): Promise<Observation> => {
    const settled = await settle(job);
    const history = await readHistory(job.handle, death.pid);
    const counts = await rooms.count(job.room);
    const run = isRoomWay(way) ? await rooms.findRun(job.messageId) : null;
    const requests = shared.model.requestsOf(requestKey(way, job.room.slug));
    const { by, at } = pickUp(history, run, death.at, settled && isFinished(counts));
    const endedAt = run?.closedAt.getTime() ?? history.endedAt;
    return {
      way,
      point,
      ...counts,
      requests,
      reached: death.reached.has(job.room.agentId),
      disturbed: history.failedAttempts > ATTEMPTS_A_KILL_FAILS,
      settled,
      lostSteps: lostSteps(counts),
      pickedUpBy: by,
      pickedUpMs: at === null ? null : Math.round(Math.max(0, at - death.at)),
      settledMs: settled && endedAt !== null ? Math.round(Math.max(0, endedAt - death.at)) : null,
      ending: run?.ending ?? null,
      code: run?.code ?? null,
      next: run !== null && !isFinished(counts) && !actedTwice(counts) ? await askToContinue(job) : null,
    };
  };

  const die = async (points: readonly Point[]): Promise<Observation[]> => {
    await startWorker();
    const dying = victim as unknown as Victim;
    spare ??= launch(false);
    await spare.loaded;
    const opened: JobRoom[] = [];
    for (const _ of points) opened.push(await rooms.open());
    const targets = opened.map((room, index) => ({ agent: room.agentId, point: points[index] as Point }));
    await dying.arm(targets, times.graceMs);
    const jobs = await Promise.all(opened.map(begin));
    const how = await dying.ended(ARRIVE_MS);
    await dying.end();
    victim = null;
    if (how !== null && how !== 'SIGKILL') throw new Error(`a worker of way “${way}” ended unexpectedly: ${how}`);
    const lines = readDeaths(deaths, dying.pid);
    const death: Death = {
      pid: dying.pid,
      at: lines.find((line) => line.what === 'dies')?.at ?? Date.now(),
      reached: new Set(lines.filter((line) => line.what === 'reached').map((line) => line.agent)),
    };
    await startWorker();
    return Promise.all(jobs.map((job, index) => observe(job, points[index] as Point, death)));
  };

  return {
    way,
    rooms,
    database,
    startWorker,
    begin,
    settle,
    die,
    stop: async () => {
      stopped = true;
      for (const call of waiting) call.abort();
      await Promise.all([victim?.end(), spare?.end()]);
      await rooms.close();
      await database.drop();
    },
  };
}

interface Death {
  readonly pid: number;
  readonly at: number;
  /** Agents of the jobs that reached their points. */
  readonly reached: ReadonlySet<string>;
}

function pickUp(
  history: HistoryFacts,
  run: RunFacts | null,
  killedAt: number,
  finished: boolean,
): { by: PickedUpBy; at: number | null } {
  if (run !== null && run.closedAt.getTime() <= killedAt) return { by: 'nothing_left', at: null };
  if (run !== null && !finished) return { by: 'ending', at: run.closedAt.getTime() };
  if (history.pickedUpBy === null) return { by: 'nothing', at: null };
  return { by: history.pickedUpBy, at: history.pickedUpAt };
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

/** True if the work ended in time. Otherwise `isOver` asks the work to end. */
async function within(ms: number, work: (isOver: () => boolean) => Promise<unknown>): Promise<boolean> {
  let over = false;
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<false>((resolve) => {
    timer = setTimeout(() => {
      over = true;
      resolve(false);
    }, ms);
  });
  try {
    return await Promise.race([work(() => over).then(() => true as const), late]);
  } finally {
    clearTimeout(timer);
  }
}
