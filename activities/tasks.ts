// The tasks that a reply declared: answers to tasks of its own, and tasks for others. A model invents ids and slugs;
// what it may not touch, or is not there, ends the step and leaves everything else alone.

import { Conflict, InvalidInput, NotAllowed, NotFound } from '../prisma/store/errors';
import type { Effect } from '../prisma/store/runs';
import { respondToTask, stageTask } from '../prisma/store/tasks';
import type { StepResult } from '../workflows/contract';
import type { ActivityDeps } from './deps';
import { takeStep, type StepInput } from './step';

/** Answers one declared task, at most once for all time. A task that is not this agent's ends the step `superseded`. */
export function createUpdateTask({ db }: ActivityDeps) {
  return async (input: StepInput): Promise<StepResult> =>
    takeStep(db, input, async ({ tx, draft, run: locked, around, reply, step: planned }) => {
      const declared = reply.task_updates[planned.index];
      if (!declared) throw new Error('the stored reply declares no such task update');
      const response = {
        responder: around.author,
        taskId: declared.task,
        state: declared.state,
        result: declared.result,
        hop: locked.hop,
        runId: locked.id,
      };
      return settle('superseded', async () => {
        await respondToTask(tx, draft, around.room, response);
        return declared.task;
      });
    });
}

/** Sends one declared task, at most once for all time. A recipient who is not on the roster ends the step `refused`. */
export function createSendTask({ db }: ActivityDeps) {
  return async (input: StepInput): Promise<StepResult> =>
    takeStep(db, input, async ({ tx, draft, run: locked, around, reply, step: planned }) => {
      const declared = reply.tasks_to_send[planned.index];
      if (!declared) throw new Error('the stored reply declares no such task');
      const task = {
        sender: around.author,
        to: declared.to,
        goal: declared.goal,
        acceptanceCriteria: declared.acceptance_criteria,
        priority: declared.priority,
        deadline: declared.deadline,
        memoryRefs: [],
        attachments: [],
        hop: locked.hop,
        runId: locked.id,
        refersTo: locked.messageId,
      };
      return settle('refused', async () => (await stageTask(tx, draft, around.room, task)).taskId);
    });
}

// These errors are found by reading, before anything was staged or written, so the transaction goes on.
async function settle(state: 'superseded' | 'refused', work: () => Promise<string>): Promise<Effect> {
  try {
    return { state: 'done', effectId: await work() };
  } catch (error) {
    if (error instanceof NotFound) return { state, code: 'not_found' };
    if (error instanceof NotAllowed) return { state, code: 'not_yours' };
    if (error instanceof Conflict) return { state, code: 'already_judged' };
    if (error instanceof InvalidInput) return { state, code: 'invalid' };
    throw error;
  }
}
