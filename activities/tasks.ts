// The effects of `task_update` and `task_send` steps. Models invent ids and slugs: a task or a recipient that does not
// exist ends the step and changes nothing.

import { Conflict, InvalidInput, NotAllowed, NotFound } from '../prisma/store/db/errors';
import type { Effect, StepContext } from '../prisma/store/runs/fence';
import { respondToTask, stageTask } from '../prisma/store/rooms/tasks';

/** Answers the declared task. If the task was sent to another agent, the step is `superseded`. */
export async function updateTask(context: StepContext<'task_update'>): Promise<Effect> {
  const { tx, draft, run, runContext, action, wasHeld } = context;
  const response = {
    responder: runContext.author,
    taskId: action.task,
    state: action.state,
    result: action.result,
    onlyWhileOpen: wasHeld,
    hop: run.hop,
    runId: run.id,
  };
  return settle('superseded', async () => {
    await respondToTask(tx, draft, runContext.room, response);
    return action.task;
  });
}

/** Sends the declared task. If the recipient is not on the roster, the step is `refused`, or `superseded` after a hold. */
export async function sendTask(context: StepContext<'task_send'>): Promise<Effect> {
  const { tx, draft, run, runContext, action, wasHeld } = context;
  const task = {
    sender: runContext.author,
    to: action.to,
    goal: action.goal,
    acceptanceCriteria: action.acceptance_criteria,
    priority: action.priority,
    deadline: action.deadline,
    memoryRefs: [],
    attachments: [],
    hop: run.hop,
    runId: run.id,
    refersTo: run.messageId,
  };
  return settle(
    // The recipient may have been on the roster when the task was approved.
    wasHeld ? 'superseded' : 'refused',
    async () => (await stageTask(tx, draft, runContext.room, task)).taskId,
  );
}

// These errors come from reads, before anything is staged or written, so the transaction continues.
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
