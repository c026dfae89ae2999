// The steps of a run, derived from the kinds of actions that its reply declared. Pure.

import type { ActionKind, DeclaredReply, Right, Rights } from '../contract';

/** One thing a run would do to the room, at its place in the reply. */
export interface Step {
  /** `reply`, `memory`, `task_update:1`, `task_send:2`. Its key in the ledger: never random, never the attempt. */
  readonly key: string;
  readonly kind: ActionKind;
  /** Order in which steps act: the reply first, then memory, then tasks as declared. */
  readonly position: number;
  /** Index within its kind, from 0: which entry of the reply it carries out. */
  readonly index: number;
}

export type Decision = 'go' | 'refuse';

/** The kinds of the actions that a reply declares, in the order in which they act. */
export function declaredKinds(reply: DeclaredReply): ActionKind[] {
  const kinds: ActionKind[] = [];
  if (reply.reply !== null) kinds.push('reply');
  if (reply.memory !== null) kinds.push('memory');
  for (const _ of reply.task_updates) kinds.push('task_update');
  for (const _ of reply.tasks_to_send) kinds.push('task_send');
  return kinds;
}

/** Every step of a reply that declared these kinds. */
export function planSteps(kinds: readonly ActionKind[]): Step[] {
  const counts = new Map<ActionKind, number>();
  return kinds.map((kind, position) => {
    const index = counts.get(kind) ?? 0;
    counts.set(kind, index + 1);
    const key = kind === 'reply' || kind === 'memory' ? kind : `${kind}:${index + 1}`;
    return { key, kind, position, index };
  });
}

/**
 * What becomes of a step under these rights.
 *
 * An action that would need somebody's yes is refused: there is nobody yet who could give it.
 */
export function decide(kind: ActionKind, rights: Rights): Decision {
  const right: Right = rights[kind];
  switch (right) {
    case 'go':
      return 'go';
    case 'hold':
    case 'refuse':
      return 'refuse';
  }
}

/** Why a step was refused, as the ledger says it. */
export function refusalCode(kind: ActionKind, rights: Rights): string {
  return rights[kind] === 'hold' ? 'needs_approval' : 'not_allowed';
}

/** The steps that may act, in order. None, when the reply itself may not be posted: what follows it is superseded. */
export function stepsToTake(steps: readonly Step[], rights: Rights): Step[] {
  const reply = steps.find((step) => step.kind === 'reply');
  if (reply && decide('reply', rights) !== 'go') return [];
  return steps.filter((step) => decide(step.kind, rights) === 'go');
}
