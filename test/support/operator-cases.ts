// Opens a room for each operator case, with a task whose reply declares a step of every kind. Counts the effects in the
// room, not in the ledger.

import type { Run } from '../../prisma/generated/client';
import type { Database } from '../../prisma/store/db/database';
import { wakeWorkflowId, type OnCrash } from '../../workflows/contract';
import { expectGaplessRoom, expectLedgerEqualsRoom } from './ledger';
import type { Target } from './operator-actions';
import { declareEveryKind, openRoom, type TestRoom } from './rooms';
import { closedRun, until } from './runs';
import { answer, type CapturedRequest, type ScriptedAnswer, type ScriptedModel } from './scripted-model-server';
import type { World } from './world';

/** The step keys of a case in their order, and the activities that execute them. */
export const STEPS = ['reply', 'memory', 'task_update:1', 'task_send:1'] as const;
export const ACTING = ['postReply', 'writeMemory', 'updateTask', 'sendTask'] as const;

/** How often each effect of a run is in its room. */
export interface Effects {
  readonly replies: number;
  readonly memory: number;
  readonly responses: number;
  readonly sends: number;
}

export const ONCE: Effects = { replies: 1, memory: 1, responses: 1, sends: 1 };
export const NOTHING: Effects = { replies: 0, memory: 0, responses: 0, sends: 0 };

export interface OperatorCase {
  readonly room: TestRoom;
  readonly messageId: string;
  /** The execution that has the workflow id of the case now. */
  readonly target: Target;
  /** The requests of this case that reached the provider. */
  requests(): CapturedRequest[];
  /** Resolves with the run when it is claimed. */
  claimed(): Promise<Run>;
  closed(): ReturnType<typeof closedRun>;
  effects(): Promise<Effects>;
  /** Fails unless the ledger of the closed run equals its room, and every wake of the room has ended. */
  expectConsistent(): Promise<void>;
  /** Opens another case with a task in the same room. */
  another(options?: Pick<CaseOptions, 'answers'>): Promise<OperatorCase>;
}

export interface CaseOptions {
  readonly onCrash?: OnCrash;
  /** One answer for each request, instead of a reply with a step of every kind. */
  readonly answers?: readonly ScriptedAnswer[];
}

export type OpenCase = (options?: CaseOptions) => Promise<OperatorCase>;

/** Opens cases in this world. The model finds the case of a request by the newest goal in the request. */
export function caseOpener(world: World, model: ScriptedModel): OpenCase {
  const { db } = world;
  const cases: { goal: string; answers: ScriptedAnswer[]; byDefault: ScriptedAnswer; asked: CapturedRequest[] }[] = [];
  model.respond((request) => {
    const shown = request.textOf('user');
    const found = cases.findLast(({ goal }) => shown.includes(goal));
    if (!found) throw new Error('the request belongs to no case');
    found.asked.push(request);
    return found.answers.shift() ?? found.byDefault;
  });

  const sendTask = async (room: TestRoom, answers: readonly ScriptedAnswer[]): Promise<OperatorCase> => {
    const goal = `case ${cases.length + 1} of the operator.`;
    const { messageId, taskId } = await room.sendTask(goal);
    const asked: CapturedRequest[] = [];
    cases.push({ goal, answers: [...answers], byDefault: answer.reply(declareEveryKind(room, taskId)), asked });
    const closed = () => closedRun(db, messageId, room.agent.id);
    return {
      room,
      messageId,
      target: { workflowId: wakeWorkflowId(room.agent.id, messageId) },
      requests: () => asked,
      claimed: () => until('the run to be claimed', () => db.run.findFirst({ where: { messageId } })),
      closed,
      effects: async () => countEffects(db, (await db.run.findFirstOrThrow({ where: { messageId } })).id),
      expectConsistent: async () => {
        const run = await closed();
        await expectLedgerEqualsRoom(db, run.id);
        await expectEverythingEnded(db, room.id);
      },
      another: (options = {}) => sendTask(room, options.answers ?? []),
    };
  };
  let rooms = 0;
  return async ({ onCrash = 'stop', answers = [] } = {}) => {
    rooms += 1;
    return sendTask(await openRoom(world, { name: String(rooms), modelUrl: model.url, onCrash }), answers);
  };
}

/** The number of effects of this run in its room. */
export async function countEffects(db: Database, runId: string): Promise<Effects> {
  const count = (kind: string) => db.message.count({ where: { runId, kind } });
  const sends = await db.task.count({ where: { runId } });
  expect(await count('task_card')).toBe(sends);
  return {
    replies: await count('text'),
    memory: await db.memoryEntry.count({ where: { runId } }),
    responses: await count('response_card'),
    sends,
  };
}

/** Fails unless every wake of the room is claimed or suppressed, every run is closed, and the events have no gap. */
export async function expectEverythingEnded(db: Database, roomId: string): Promise<void> {
  expect(await db.wake.count({ where: { roomId, state: { notIn: ['claimed', 'suppressed'] } } })).toBe(0);
  expect(await db.run.count({ where: { roomId, state: { not: 'closed' } } })).toBe(0);
  const claimed = await db.wake.count({ where: { roomId, state: 'claimed' } });
  expect(await db.run.count({ where: { roomId } })).toBe(claimed);
  await expectGaplessRoom(db, roomId);
}
