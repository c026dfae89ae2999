// What the model of the lab says. It answers the same message the same way, however often it is asked: reply, one memory
// line, one task. Asked what is left, it looks into the room that it is shown and declares only what is not there.

import type { DeclaredReply } from '../../workflows/contract';
import { NOTHING_DECLARED } from '../../workflows/policy/steps';
import type { CapturedRequest, ScriptedModel } from '../../test/support/scripted-model-server';
import { CLERK } from './job-rooms';

/** The waking message's text; `name` is the job's agent, which is in every request. */
export const JOB_TEXT = 'please answer, note it down, and send the clerk a task';
export const LEFT_TEXT = 'what is left?';

const LINE = 'The plan was answered.';
const GOAL = 'File the plan.';

interface Shown {
  readonly you: { readonly slug: string };
  readonly shared_memory: readonly { readonly content: string }[];
  readonly recent_messages: readonly { readonly kind: string; readonly text: string }[];
  readonly message_that_woke_you: { readonly text: string };
}

export interface LabModel {
  /** Requests that reached the model for the message that woke this agent first. */
  requestsOf(key: string): number;
}

/** Makes the model answer for the lab. `key`: the URL path segment and the slug, so that ways do not share counts. */
export function scriptModel(model: ScriptedModel): LabModel {
  const requests = new Map<string, number>();
  model.respond((request) => {
    const shown = readShown(request);
    if (shown.message_that_woke_you.text.includes(LEFT_TEXT)) return whatIsLeft(shown);
    const key = keyOf(request.path, shown.you.slug);
    requests.set(key, (requests.get(key) ?? 0) + 1);
    return declare({ reply: 'The plan is complete.', memory: true, task: true });
  });
  return { requestsOf: (key) => requests.get(key) ?? 0 };
}

/** The base URL under which one way reaches the model. */
export function modelUrlOf(model: ScriptedModel, way: string): string {
  return `${model.origin}/${way}/v1`;
}

/** What a job's requests are counted under. */
export function requestKey(way: string, slug: string): string {
  return `${way}/${slug}`;
}

function keyOf(path: string, slug: string): string {
  return requestKey(path.split('/')[1] ?? '', slug);
}

function whatIsLeft(shown: Shown): DeclaredReply {
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

// The rendered room is JSON behind one line of ours.
function readShown(request: CapturedRequest): Shown {
  const text = request.textOf('user');
  return JSON.parse(text.slice(text.indexOf('{'))) as Shown;
}
