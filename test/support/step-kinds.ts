// One reply for each kind of step, for tests that cover all kinds. A kind without a reply here does not compile.

import type { DeclaredReply, StepKind } from '../../workflows/contract';

/** The text in every field that holds free text. */
export const DECLARED_TEXT = 'marigold-4711';

/** The fields of a reply that declares one step of the kind. `task` and `to` are for the caller to replace. */
export const DECLARED_BY_KIND = {
  reply: { reply: `It is ${DECLARED_TEXT}.` },
  memory: {
    memory: { category: 'fact', content: `It is ${DECLARED_TEXT}.`, tags: [DECLARED_TEXT], visibility: 'shared' },
  },
  task_update: { task_updates: [{ task: 'task_1', state: 'done', result: `It is ${DECLARED_TEXT}.` }] },
  task_send: {
    tasks_to_send: [
      {
        to: 'scout',
        goal: `Find ${DECLARED_TEXT}.`,
        acceptance_criteria: [`It is ${DECLARED_TEXT}.`],
        priority: 'normal',
        deadline: null,
      },
    ],
  },
} as const satisfies Record<StepKind, Partial<DeclaredReply>>;
