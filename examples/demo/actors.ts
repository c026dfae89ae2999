// The replies of the demo's scripted model: a planner that delegates a task, and a scout that does the work.

import type { DeclaredReply } from '../../workflows/contract';
import type { CapturedRequest } from '../../test/support/scripted-model-server';

interface ShownContext {
  readonly you: { readonly slug: string };
  readonly open_tasks_sent_to_you: readonly { readonly id: string }[];
  readonly shared_memory: readonly { readonly content: string }[];
  readonly message_that_woke_you: { readonly kind: string; readonly text: string };
}

/** The reply of the agent that this request is for. */
export function replyAsActor(request: CapturedRequest): Partial<DeclaredReply> | string {
  const shown = readContext(request.textOf('user'));
  return shown.you.slug === 'planner' ? planner(shown) : scout(shown);
}

function planner({ message_that_woke_you: woke }: ShownContext): Partial<DeclaredReply> {
  if (woke.kind === 'response_card') return { reply: 'Thank you. That settles the venue.' };
  return {
    reply: 'We need a venue first. I have asked the scout.',
    memory: {
      category: 'requirement',
      content: 'The venue must hold 80 people.',
      tags: ['venue'],
      visibility: 'shared',
    },
    tasks_to_send: [
      { to: 'scout', goal: 'Find a venue for 80 people.', acceptance_criteria: [], priority: 'high', deadline: null },
    ],
  };
}

function scout({ message_that_woke_you: woke, open_tasks_sent_to_you: tasks, shared_memory: memory }: ShownContext) {
  const venue = 'The Orangery holds 90 and is free that week.';
  if (woke.kind === 'task_card') {
    return {
      reply: 'On it.',
      memory: { category: 'fact' as const, content: venue, tags: ['venue'], visibility: 'shared' as const },
      task_updates: tasks.map((task) => ({ task: task.id, state: 'done' as const, result: venue })),
    };
  }
  const topic = /between/.test(woke.text) ? 'Catering' : 'Lighting';
  const line = `${topic} is booked for the Orangery.`;
  const known = memory.some((entry) => entry.content === line);
  if (/again/.test(woke.text)) {
    return {
      reply: known ? 'It is all in memory already.' : 'I see my reply in the room, and no memory line. Writing it now.',
      ...(known
        ? {}
        : { memory: { category: 'fact' as const, content: line, tags: [], visibility: 'shared' as const } }),
    };
  }
  return {
    reply: `${topic} is done.`,
    memory: { category: 'fact' as const, content: line, tags: [], visibility: 'shared' as const },
  };
}

function readContext(user: string): ShownContext {
  return JSON.parse(user.slice(user.indexOf('{'))) as ShownContext;
}
