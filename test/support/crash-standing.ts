// Runs that stand at their crash points: each in a room of its own, all in one worker process, until something happens to it.

import { randomBytes } from 'node:crypto';
import { countParked, decideToStand, letHold } from './crash-holds';
import type { CrashPoint } from './crash-points';
import { declareEveryKind, openRoom, type TestRoom } from './rooms';
import { until } from './runs';
import { answer, type ScriptedAnswer, type ScriptedModel } from './scripted-model-server';
import { forkCrashWorker, type WorkerProcess } from './worker-processes';
import type { World } from './world';
import type { OnCrash } from '../../workflows/contract';

/** Fits a busy machine; a run that reaches its point late costs nothing but time. */
const ALL_STAND_MS = 120_000;

export interface CrashCase {
  readonly point: CrashPoint;
  readonly onCrash: OnCrash;
}

export interface CrashRun extends CrashCase {
  readonly room: TestRoom;
  readonly messageId: string;
  /** What its model is asked, and no other's. */
  readonly marker: string;
}

/**
 * A room and a task of every kind of step for each case, in an otherwise empty world. A case of `closeRun` meets a
 * provider that refuses: a run closes by that activity only when no step does it.
 */
export async function openCrashRuns(
  world: World,
  model: ScriptedModel,
  cases: readonly CrashCase[],
): Promise<CrashRun[]> {
  const answers = new Map<string, ScriptedAnswer>();
  // The model may have seen other worlds before.
  const batch = randomBytes(6).toString('hex');
  model.respond((request) => {
    const shown = request.textOf('user');
    for (const [text, scripted] of answers) if (shown.includes(text)) return scripted;
    throw new Error('a request of no case');
  });
  const runs: CrashRun[] = [];
  for (const [index, { point, onCrash }] of cases.entries()) {
    const room = await openRoom(world, { name: String(index), modelUrl: model.url, onCrash });
    await letHold(world, { point, agentId: room.agent.id });
    const marker = `case ${index} of ${batch}.`;
    const { messageId, taskId } = await room.sendTask(marker);
    const refused = answer.error(401, 'invalid_api_key');
    answers.set(marker, point.startsWith('closeRun:') ? refused : answer.reply(declareEveryKind(room, taskId)));
    runs.push({ point, onCrash, room, messageId, marker });
  }
  return runs;
}

/** Starts a worker and resolves when every run stands at its point in it. */
export async function standAll(
  world: World,
  env: Record<string, string>,
  runs: readonly CrashRun[],
  onStanding: (count: number) => void = () => undefined,
): Promise<WorkerProcess> {
  const points = runs.map(({ point, room }) => `${point}@${room.agent.id}`);
  const worker = forkCrashWorker(env, { points, action: 'stop' });
  try {
    await worker.ready;
    await decideToStand(world, holdCasesOf(runs));
    const standing = runs.length - countParked(runs);
    await until(
      'every run to reach its point',
      async () => {
        onStanding(worker.stops.length);
        if (hasEnded(worker)) throw new Error('the worker ended before every run had reached its point');
        return worker.stops.length === standing;
      },
      ALL_STAND_MS,
    );
    return worker;
  } catch (error) {
    await worker.kill();
    throw error;
  }
}

/** The runs as `crash-holds.ts` knows them. */
export function holdCasesOf(runs: readonly CrashRun[]): { point: CrashPoint; agentId: string }[] {
  return runs.map(({ point, room }) => ({ point, agentId: room.agent.id }));
}

export function hasEnded({ child }: WorkerProcess): boolean {
  return child.exitCode !== null || child.signalCode !== null;
}

/** Whether the id of a workflow is that of this run. */
export function isOfRun(workflowId: string, run: CrashRun): boolean {
  return workflowId.startsWith(`wake/${run.room.agent.id}/`);
}
