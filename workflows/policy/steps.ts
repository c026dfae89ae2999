// The steps of a run, derived from the kinds of actions that its reply declared. Pure.

import type { StepKind, DeclaredAction, DeclaredReply, Rights } from '../contract';

/** One thing a run would do to the room, at its place in the reply. */
export interface Step {
  /** `reply`, `memory`, `task_update:1`, `task_send:2`. Its key in the ledger: never random, never the attempt. */
  readonly key: string;
  readonly kind: StepKind;
  /** Order in which steps act: the reply first, then memory, then tasks as declared. */
  readonly position: number;
  /** Index within its kind, from 0: which entry of the reply it carries out. */
  readonly index: number;
}

/** The kinds of the actions that a reply declares, in the order in which they act. */
export function declaredKinds(reply: DeclaredReply): StepKind[] {
  const kinds: StepKind[] = [];
  if (reply.reply !== null) kinds.push('reply');
  if (reply.memory !== null) kinds.push('memory');
  for (const _ of reply.task_updates) kinds.push('task_update');
  for (const _ of reply.tasks_to_send) kinds.push('task_send');
  return kinds;
}

/** Every step of a reply that declared these kinds. */
export function planSteps(kinds: readonly StepKind[]): Step[] {
  const counts = new Map<StepKind, number>();
  return kinds.map((kind, position) => {
    const index = counts.get(kind) ?? 0;
    counts.set(kind, index + 1);
    const key = kind === 'reply' || kind === 'memory' ? kind : `${kind}:${index + 1}`;
    return { key, kind, position, index };
  });
}

/** The action that a step carries out, out of the reply that declared it. */
export function actionOf(reply: DeclaredReply, step: Step): DeclaredAction {
  switch (step.kind) {
    case 'reply':
      if (reply.reply !== null) return { kind: 'reply', text: reply.reply };
      break;
    case 'memory':
      if (reply.memory !== null) return { kind: 'memory', ...reply.memory };
      break;
    case 'task_update': {
      const update = reply.task_updates[step.index];
      if (update) return { kind: 'task_update', ...update };
      break;
    }
    case 'task_send': {
      const send = reply.tasks_to_send[step.index];
      if (send) return { kind: 'task_send', ...send };
      break;
    }
  }
  throw new Error('the stored reply declares no such step');
}

/** The steps that need somebody's yes. None, when the reply may not be posted at all: what follows it is superseded. */
export function stepsToHold(steps: readonly Step[], rights: Rights): Step[] {
  if (steps.some((step) => step.kind === 'reply') && rights.reply === 'refuse') return [];
  return steps.filter((step) => rights[step.kind] === 'hold');
}
