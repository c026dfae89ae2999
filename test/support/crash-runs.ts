// Opens crash runs, each in its own room, and holds all of them at their crash points in one worker process.

import { randomBytes } from 'node:crypto';
import { countParked, decideBeforeFault, holdTaskSends } from './crash-holds';
import type { CrashPoint } from './crash-points';
import { declareEveryKind, openRoom, type TestRoom } from './rooms';
import { until } from './runs';
import { answer, type ScriptedAnswer, type ScriptedModel } from './scripted-model-server';
import { forkCrashWorker, type WorkerProcess } from './worker-processes';
import type { World } from './world';
import type { OnCrash } from '../../workflows/contract';

/** Long enough for a busy machine; a run that reaches its point late only takes time. */
const ALL_HELD_MS = 120_000;

export interface CrashCase {
  readonly point: CrashPoint;
  readonly onCrash: OnCrash;
}

export interface CrashRun extends CrashCase {
  readonly room: TestRoom;
  readonly messageId: string;
  /** A text in the model requests of this run and of no other run. */
  readonly marker: string;
}

/**
 * Opens a room for each case in an otherwise empty world, and sends a task whose reply declares a step of every kind. For a
 * case of `closeRun`, the provider refuses: a run closes by that activity only if no step closes it.
 */
export async function openCrashRuns(
  world: World,
  model: ScriptedModel,
  cases: readonly CrashCase[],
): Promise<CrashRun[]> {
  const answers = new Map<string, ScriptedAnswer>();
  // The model may have answered requests of other worlds before.
  const batch = randomBytes(6).toString('hex');
  model.respond((request) => {
    const shown = request.textOf('user');
    for (const [text, scripted] of answers) if (shown.includes(text)) return scripted;
    throw new Error('the request belongs to no case');
  });
  const runs: CrashRun[] = [];
  for (const [index, { point, onCrash }] of cases.entries()) {
    const room = await openRoom(world, { name: String(index), modelUrl: model.url, onCrash });
    await holdTaskSends(world, { point, agentId: room.agent.id });
    const marker = `case ${index} of ${batch}.`;
    const { messageId, taskId } = await room.sendTask(marker);
    const refused = answer.error(401, 'invalid_api_key');
    answers.set(marker, point.startsWith('closeRun:') ? refused : answer.reply(declareEveryKind(room, taskId)));
    runs.push({ point, onCrash, room, messageId, marker });
  }
  return runs;
}

/** Starts a worker and resolves when it holds every run at its point. */
export async function holdAllRuns(
  world: World,
  env: Record<string, string>,
  runs: readonly CrashRun[],
  onHeld: (count: number) => void = () => undefined,
): Promise<WorkerProcess> {
  const points = runs.map(({ point, room }) => `${point}@${room.agent.id}`);
  const worker = forkCrashWorker(env, { points, action: 'stop' });
  try {
    await worker.ready;
    await decideBeforeFault(world, holdCasesOf(runs));
    const expected = runs.length - countParked(runs);
    await until(
      'every run to reach its point',
      async () => {
        onHeld(worker.stops.length);
        if (hasEnded(worker)) throw new Error('the worker ended before every run had reached its point');
        return worker.stops.length === expected;
      },
      ALL_HELD_MS,
    );
    return worker;
  } catch (error) {
    await worker.kill();
    throw error;
  }
}

/** The runs as the cases of crash-holds.ts. */
export function holdCasesOf(runs: readonly CrashRun[]): { point: CrashPoint; agentId: string }[] {
  return runs.map(({ point, room }) => ({ point, agentId: room.agent.id }));
}

export function hasEnded({ child }: WorkerProcess): boolean {
  return child.exitCode !== null || child.signalCode !== null;
}

/** Whether this is the workflow id of this run. */
export function isOfRun(workflowId: string, run: CrashRun): boolean {
  return workflowId.startsWith(`wake/${run.room.agent.id}/`);
}
