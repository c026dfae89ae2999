// The kinds of steps and the steps of a run, derived from the reply that declares them. Pure.

import {
  STEP_KINDS,
  type ActionOf,
  type DeclaredAction,
  type DeclaredReply,
  type Right,
  type Rights,
  type StepKind,
} from '../contract';

/** One action that a run executes, at its position in the reply. */
export interface Step {
  /** `reply`, `memory`, `task_update:1`, `task_send:2`. The key in the ledger: never random, never the attempt. */
  readonly key: string;
  readonly kind: StepKind;
  /** Order in which the steps execute: by kind, then as declared. */
  readonly position: number;
  /** Index within the kind, from 0. */
  readonly index: number;
}

interface StepRule<K extends StepKind> {
  /** The activity that executes a step of this kind. Histories record the name, so it never changes. */
  readonly activity: string;
  /** `one`: a reply declares at most one, and the key is the kind. `many`: the key has a number from 1. */
  readonly count: 'one' | 'many';
  /** The right to this kind in the preset `careful`. */
  readonly carefulRight: Right;
  /** The actions of this kind that a reply declares, in order. */
  readonly actionsIn: (reply: DeclaredReply) => readonly ActionOf<K>[];
}

/** The rules of each kind of step. The right to a kind has the kind's name. */
export const STEP_RULES = {
  reply: {
    activity: 'postReply',
    count: 'one',
    carefulRight: 'go',
    actionsIn: ({ reply }) => (reply === null ? [] : [{ kind: 'reply', text: reply }]),
  },
  memory: {
    activity: 'writeMemory',
    count: 'one',
    carefulRight: 'go',
    actionsIn: ({ memory }) => (memory === null ? [] : [{ kind: 'memory', ...memory }]),
  },
  task_update: {
    activity: 'updateTask',
    count: 'many',
    carefulRight: 'go',
    actionsIn: ({ task_updates }) => task_updates.map((update) => ({ kind: 'task_update', ...update })),
  },
  task_send: {
    activity: 'sendTask',
    count: 'many',
    carefulRight: 'hold',
    actionsIn: ({ tasks_to_send }) => tasks_to_send.map((send) => ({ kind: 'task_send', ...send })),
  },
} as const satisfies { readonly [K in StepKind]: StepRule<K> };

/** The activities that execute steps. */
export type StepActivity = (typeof STEP_RULES)[StepKind]['activity'];

/** The reply that declares no step. */
export const NOTHING_DECLARED: DeclaredReply = { reply: null, memory: null, task_updates: [], tasks_to_send: [] };

/** A record with the value that `of` returns for each kind of step. */
export function perStepKind<T>(of: (kind: StepKind) => T): Record<StepKind, T> {
  return Object.fromEntries(STEP_KINDS.map((kind) => [kind, of(kind)])) as Record<StepKind, T>;
}

/** The kinds of the actions that a reply declares, in the order in which their steps execute. */
export function declaredKinds(reply: DeclaredReply): StepKind[] {
  return STEP_KINDS.flatMap((kind) => STEP_RULES[kind].actionsIn(reply).map(() => kind));
}

/** Every step of a reply that declares these kinds. */
export function planSteps(kinds: readonly StepKind[]): Step[] {
  const counts = new Map<StepKind, number>();
  return kinds.map((kind, position) => {
    const index = counts.get(kind) ?? 0;
    counts.set(kind, index + 1);
    const key = STEP_RULES[kind].count === 'one' ? kind : `${kind}:${index + 1}`;
    return { key, kind, position, index };
  });
}

/** The action of a step, from the reply that declares it. */
export function actionOf(reply: DeclaredReply, step: Step): DeclaredAction {
  const action = STEP_RULES[step.kind].actionsIn(reply)[step.index];
  if (!action) throw new Error('the stored reply declares no such step');
  return action;
}

/** The steps that need approval. None if the reply is refused: then every later step is superseded. */
export function stepsToHold(steps: readonly Step[], rights: Rights): Step[] {
  if (steps.some((step) => step.kind === 'reply') && rights.reply === 'refuse') return [];
  return steps.filter((step) => rights[step.kind] === 'hold');
}
