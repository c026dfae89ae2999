// The scripted model of the lab. It always gives the same answer to the same message: a reply, one memory entry and one task.
// If it is asked what is left, it declares only what is missing in the room.

import type { DeclaredReply } from '../../workflows/contract';
import { NOTHING_DECLARED } from '../../workflows/policy/steps';
import type { CapturedRequest, ScriptedModel } from '../../test/support/scripted-model-server';
import { CLERK } from './job-rooms';

/** Text of the message that starts a job. */
export const JOB_TEXT = 'please answer, note it down, and send the clerk a task';
/** Text of the message that asks a new run to complete the job. */
export const CONTINUE_TEXT = 'what is left?';

const LINE = 'The plan was answered.';
const GOAL = 'File the plan.';

interface ShownContext {
  readonly you: { readonly slug: string };
  readonly shared_memory: readonly { readonly content: string }[];
  readonly recent_messages: readonly { readonly kind: string; readonly text: string }[];
  readonly message_that_woke_you: { readonly text: string };
}

export interface LabModel {
  /** Requests that reached the model for the first message to this agent. */
  requestsOf(key: string): number;
}

/** Scripts the model for the lab and counts its requests by way and slug. */
export function scriptModel(model: ScriptedModel): LabModel {
  const requests = new Map<string, number>();
  model.respond((request) => {
    const shown = readShown(request);
    if (shown.message_that_woke_you.text.includes(CONTINUE_TEXT)) return replyToContinue(shown);
    const key = keyOf(request.path, shown.you.slug);
    requests.set(key, (requests.get(key) ?? 0) + 1);
    return declare({ reply: 'The plan is complete.', memory: true, task: true });
  });
  return { requestsOf: (key) => requests.get(key) ?? 0 };
}

/** The base URL of the model for one way. */
export function modelUrlOf(model: ScriptedModel, way: string): string {
  return `${model.origin}/${way}/v1`;
}

/** The key under which a job's requests are counted. */
export function requestKey(way: string, slug: string): string {
  return `${way}/${slug}`;
}

function keyOf(path: string, slug: string): string {
  return requestKey(path.split('/')[1] ?? '', slug);
}

function replyToContinue(shown: ShownContext): DeclaredReply {
  return declare({
    reply: 'Here is what was left.',
    memory: !shown.shared_memory.some((line) => line.content === LINE),
    task: !shown.recent_messages.some((message) => message.kind === 'task_card' && message.text === GOAL),
  });
}

function declare(what: { reply: string; memory: boolean; task: boolean }): DeclaredReply {
  return {
    ...NOTHING_DECLARED,
    reply: what.reply,
    memory: what.memory ? { category: 'fact', content: LINE, tags: [], visibility: 'shared' } : null,
    task_updates: [],
    tasks_to_send: what.task
      ? [{ to: CLERK, goal: GOAL, acceptance_criteria: [], priority: 'normal', deadline: null }]
      : [],
  };
}

// The rendered room is JSON after one line of text.
function readShown(request: CapturedRequest): ShownContext {
  const text = request.textOf('user');
  return JSON.parse(text.slice(text.indexOf('{'))) as ShownContext;
}
