// A room of its own for each case of an operator's, woken by a task whose reply acts in every way there is; and what came
// of it, counted in the room and not in the ledger.

import type { Run } from '../../prisma/generated/client';
import type { Db } from '../../prisma/store/transaction';
import { wakeWorkflowId, type OnCrash } from '../../workflows/contract';
import { expectGaplessRoom, expectLedgerEqualsRoom } from './ledger';
import type { Target } from './operator-hands';
import { declareEveryKind, openRoom, type TestRoom } from './rooms';
import { closedRun, until } from './runs';
import { answer, type CapturedRequest, type ScriptedAnswer, type ScriptedModel } from './scripted-model-server';
import type { World } from './world';

/** Keys of the steps of a case, in the order in which they act, and the activities that do them. */
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
  /** Whichever execution has its workflow id now. */
  readonly target: Target;
  /** Requests that reached the provider for this case. */
  requests(): CapturedRequest[];
  /** The run, once it is claimed. */
  claimed(): Promise<Run>;
  closed(): ReturnType<typeof closedRun>;
  effects(): Promise<Effects>;
  /** Fails unless the closed run's ledger says what is in its room, and every wake of the room has its end. */
  expectTrue(): Promise<void>;
}

export interface CaseOptions {
  readonly onCrash?: OnCrash;
  /** Instead of a reply that acts in every way: one answer for each request. */
  readonly answers?: readonly ScriptedAnswer[];
}

export type OpenCase = (options?: CaseOptions) => Promise<OperatorCase>;

/** Opens cases in this world. The model knows which case asks by the goal of its task. */
export function caseOpener(world: World, model: ScriptedModel): OpenCase {
  const { db } = world;
  const cases = new Map<string, { answers: ScriptedAnswer[]; byDefault: ScriptedAnswer }>();
  model.respond((request) => {
    const shown = request.textOf('user');
    for (const [goal, { answers, byDefault }] of cases) {
      if (shown.includes(goal)) return answers.shift() ?? byDefault;
    }
    throw new Error('a request of no case');
  });
  return async ({ onCrash = 'stop', answers = [] } = {}) => {
    const name = String(cases.size + 1);
    const goal = `case ${name} of the operator.`;
    const room = await openRoom(world, { name, modelUrl: model.url, onCrash });
    const { messageId, taskId } = await room.sendTask(goal);
    cases.set(goal, { answers: [...answers], byDefault: answer.reply(declareEveryKind(room, taskId)) });
    const closed = () => closedRun(db, messageId, room.agent.id, 60_000);
    return {
      room,
      messageId,
      target: { workflowId: wakeWorkflowId(room.agent.id, messageId) },
      requests: () => model.requests.filter((request) => request.textOf('user').includes(goal)),
      claimed: () => until('the run to be claimed', () => db.run.findFirst({ where: { messageId } }), 60_000),
      closed,
      effects: async () => countEffects(db, (await db.run.findFirstOrThrow({ where: { messageId } })).id),
      expectTrue: async () => {
        const run = await closed();
        await expectLedgerEqualsRoom(db, run.id);
        await expectEverythingEnded(db, room.id);
      },
    };
  };
}

/** What there is of this run in its room. */
export async function countEffects(db: Db, runId: string): Promise<Effects> {
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

/** Fails unless every wake of the room is claimed or suppressed, every run closed, and its events numbered without gaps. */
export async function expectEverythingEnded(db: Db, roomId: string): Promise<void> {
  expect(await db.wake.count({ where: { roomId, state: { notIn: ['claimed', 'suppressed'] } } })).toBe(0);
  expect(await db.run.count({ where: { roomId, state: { not: 'closed' } } })).toBe(0);
  const claimed = await db.wake.count({ where: { roomId, state: 'claimed' } });
  expect(await db.run.count({ where: { roomId } })).toBe(claimed);
  await expectGaplessRoom(db, roomId);
}
