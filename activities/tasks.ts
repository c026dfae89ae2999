// The tasks that a reply declared: answers to tasks of its own, and tasks for others. A model invents ids and slugs;
// what it may not touch, or is not there, ends the step and leaves everything else alone.

import { Conflict, InvalidInput, NotAllowed, NotFound } from '../prisma/store/db/errors';
import type { Effect } from '../prisma/store/runs/fence';
import { respondToTask, stageTask } from '../prisma/store/rooms/tasks';
import type { StepResult } from '../workflows/contract';
import type { ActivityDeps } from './deps';
import { notThisKind, executeStep, type StepInput } from './step';

/** Answers one declared task, at most once for all time. A task that is not this agent's ends the step `superseded`. */
export function createUpdateTask({ db }: ActivityDeps) {
  return async (input: StepInput): Promise<StepResult> =>
    executeStep(db, input, async ({ tx, draft, run: locked, runContext, action, wasHeld }) => {
      if (action.kind !== 'task_update') throw notThisKind();
      const response = {
        responder: runContext.author,
        taskId: action.task,
        state: action.state,
        result: action.result,
        onlyWhileOpen: wasHeld,
        hop: locked.hop,
        runId: locked.id,
      };
      return settle('superseded', async () => {
        await respondToTask(tx, draft, runContext.room, response);
        return action.task;
      });
    });
}

/** Sends one declared task, at most once for all time. A recipient who is not on the roster ends the step `refused`. */
export function createSendTask({ db }: ActivityDeps) {
  return async (input: StepInput): Promise<StepResult> =>
    executeStep(db, input, async ({ tx, draft, run: locked, runContext, action, wasHeld }) => {
      if (action.kind !== 'task_send') throw notThisKind();
      const task = {
        sender: runContext.author,
        to: action.to,
        goal: action.goal,
        acceptanceCriteria: action.acceptance_criteria,
        priority: action.priority,
        deadline: action.deadline,
        memoryRefs: [],
        attachments: [],
        hop: locked.hop,
        runId: locked.id,
        refersTo: locked.messageId,
      };
      // Somebody said yes to sending it to one who was there, as far as anyone knew.
      return settle(
        wasHeld ? 'superseded' : 'refused',
        async () => (await stageTask(tx, draft, runContext.room, task)).taskId,
      );
    });
}

// These errors are found by reading, before anything was staged or written, so the transaction goes on.
async function settle(state: 'superseded' | 'refused', work: () => Promise<string>): Promise<Effect> {
  try {
    return { state: 'done', effectId: await work() };
  } catch (error) {
    if (error instanceof NotFound) return { state, code: 'not_found' };
    if (error instanceof NotAllowed) return { state, code: 'not_yours' };
    if (error instanceof Conflict) return { state, code: 'task_closed' };
    if (error instanceof InvalidInput) return { state, code: 'invalid' };
    throw error;
  }
}
