// Compares the ledger with the room: every recorded effect exists, every effect is recorded, and no lock is held any more.
// Does not use jest, so that programs can call it too: a difference throws an AssertionError that names it.

import assert from 'node:assert/strict';
import type { Database } from '../../prisma/store/db/database';
import type { DeclaredReply } from '../../workflows/contract';
import { declaredKinds, planSteps } from '../../workflows/policy/steps';
import { until } from './run-waits';

function same(what: string, actual: unknown, expected: unknown): void {
  try {
    // Not deepStrictEqual, which compares prototypes: under jest, rows come from more than one realm.
    assert.deepEqual(actual, expected);
  } catch (error) {
    if (error instanceof Error) error.message = `${what}: ${error.message}`;
    throw error;
  }
}

/** The effects of a run in its room, each with the kind of its step and the id that the ledger should have. */
async function effectsOf(db: Database, runId: string): Promise<{ kind: string; effectId: string }[]> {
  const messages = await db.message.findMany({ where: { runId }, orderBy: { seq: 'asc' } });
  const tasks = await db.task.findMany({ where: { runId } });
  const memory = await db.memoryEntry.findMany({ where: { runId } });
  const cards = messages.filter((message) => message.kind === 'task_card');
  // A task and its card are one effect, in two tables.
  same('cards and tasks', cards.map((card) => card.taskId).sort(), tasks.map((task) => task.id).sort());
  same('tasks and cards', cards.map((card) => card.id).sort(), tasks.map((task) => task.cardMessageId).sort());
  const responses = messages.filter((message) => message.kind === 'response_card');
  for (const response of responses) {
    const task = await db.task.findUniqueOrThrow({ where: { id: response.taskId as string } });
    same('the response of a task', task.responseMessageId, response.id);
  }
  return [
    ...messages.filter(({ kind }) => kind === 'text').map(({ id }) => ({ kind: 'reply', effectId: id })),
    ...memory.map(({ id }) => ({ kind: 'memory', effectId: id })),
    ...responses.map(({ taskId }) => ({ kind: 'task_update', effectId: taskId as string })),
    ...tasks.map(({ id }) => ({ kind: 'task_send', effectId: id })),
  ];
}

/**
 * Fails unless the ledger of this closed run equals its room: every done step has its effect, every effect has its step,
 * every declared step has a state, and the room has one event with the ending of the run.
 */
export async function expectLedgerEqualsRoom(db: Database, runId: string): Promise<void> {
  const run = await db.run.findUniqueOrThrow({
    where: { id: runId },
    include: { steps: { orderBy: { position: 'asc' } }, requests: { orderBy: { number: 'asc' } }, claim: true },
  });
  same('the state of the run', run.state, 'closed');
  same('the context of a closed run', run.context, null);
  same('the agent and message of the claim', [run.claim.agentId, run.claim.messageId], [run.agentId, run.messageId]);
  same('the execution of the claim', run.claim.temporalRunId, run.temporalRunId);
  const wake = await db.wake.findUniqueOrThrow({ where: { id: run.wakeId } });
  same('its wake', [wake.state, wake.agentId, wake.messageId], ['claimed', run.agentId, run.messageId]);

  const declared = run.reply === null ? [] : planSteps(declaredKinds(run.reply as unknown as DeclaredReply));
  same(
    'the steps and the declared steps',
    run.steps.map((step) => step.stepKey),
    declared.map((step) => step.key),
  );
  const done = run.steps.filter((step) => step.state === 'done');
  const byKindAndId = (a: { kind: string; effectId: string }, b: { kind: string; effectId: string }): number =>
    `${a.kind} ${a.effectId}`.localeCompare(`${b.kind} ${b.effectId}`);
  const recorded = done.map((step) => ({ kind: step.kind, effectId: step.effectId as string }));
  const effects = await effectsOf(db, runId);
  same('the effects in the room and in the ledger', effects.sort(byKindAndId), recorded.sort(byKindAndId));
  same(
    'effects of steps not done',
    run.steps.filter((step) => step.state !== 'done' && step.effectId !== null),
    [],
  );
  // Each effect has one event.
  const ids = effects.map((effect) => effect.effectId);
  const types = { reply: 'message', memory: 'memory', task_update: 'task_response', task_send: 'task' };
  const events = await db.roomEvent.findMany({ where: { subjectId: { in: ids }, authorId: run.agentId } });
  const shown = events
    .filter((event) => event.type !== 'task_started')
    .map((event) => `${event.type} ${event.subjectId}`);
  const expected = effects.map(({ kind, effectId }) => `${types[kind as keyof typeof types]} ${effectId}`);
  same('events about the effects', shown.sort(), expected.sort());

  const endings = await db.roomEvent.findMany({ where: { subjectId: runId, type: 'run_ended' } });
  const posted = done.find((step) => step.kind === 'reply')?.effectId ?? null;
  same(
    'events of its ending',
    endings.map((event) => event.data),
    [{ run: runId, agent: run.agentId, message: run.messageId, ending: run.ending, posted }],
  );
  same(
    'numbers of requests',
    run.requests.map((request) => request.number),
    run.requests.map((_, index) => index + 1),
  );
  same(
    'requests in flight',
    run.requests.filter((request) => request.outcome === 'in_flight'),
    [],
  );
  await expectGaplessRoom(db, run.roomId);
}

/** Fails unless the room's events are numbered from 1 without gaps, in the order of their times. */
export async function expectGaplessRoom(db: Database, roomId: string): Promise<void> {
  const room = await db.room.findUniqueOrThrow({ where: { id: roomId } });
  const select = { seq: true, at: true };
  const events = await db.roomEvent.findMany({ where: { roomId }, orderBy: { seq: 'asc' }, select });
  same(
    'seq without gaps',
    events.map((event) => Number(event.seq)),
    events.map((_, index) => index + 1),
  );
  same('the last seq of the room', Number(room.lastSeq), events.length);
  const times = events.map((event) => event.at.getTime());
  same(
    'times in the order of seq',
    times,
    [...times].sort((a, b) => a - b),
  );
}

/** Waits until no other session of this database is in a transaction or holds a lock. */
export async function waitForNothingHeld(db: Database, timeoutMs?: number): Promise<void> {
  await until(
    'every transaction and lock to end',
    async () => {
      const [held] = await db.$queryRaw<{ transactions: number; locks: number }[]>`
        SELECT (SELECT count(*)::int FROM pg_stat_activity
                WHERE datname = current_database() AND pid <> pg_backend_pid() AND xact_start IS NOT NULL)
                 AS transactions,
               (SELECT count(*)::int FROM pg_locks l JOIN pg_stat_activity a USING (pid)
                WHERE a.datname = current_database() AND a.pid <> pg_backend_pid() AND l.locktype <> 'virtualxid')
                 AS locks`;
      return held?.transactions === 0 && held.locks === 0;
    },
    timeoutMs,
  );
}
