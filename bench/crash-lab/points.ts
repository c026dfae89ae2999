// The points at which a worker can be killed: a step of the job and a window of that step. All ways use the same names; ways.ts
// explains the names where the code of a way has another structure.

export const STEPS = ['claim', 'read', 'model', 'post', 'memory', 'task'] as const;
export type Step = (typeof STEPS)[number];

/** The steps that have an effect in the room. */
export const EFFECTS = ['post', 'memory', 'task'] as const satisfies readonly Step[];
export type Effect = (typeof EFFECTS)[number];

export const WINDOWS = ['before', 'inside', 'between', 'after'] as const;
export type Window = (typeof WINDOWS)[number];

export const WINDOW_MEANING: Readonly<Record<Window, string>> = {
  before: 'the step has not started',
  inside:
    'the effect is written, COMMIT is not sent (a read: its transaction is open; the model: the request is sent, no answer was read)',
  between:
    'the effect is committed, its record or acknowledgement does not exist yet (the model: the answer was received and not stored)',
  after: 'the record or acknowledgement exists, the next step has not started',
};

/** For example `post:between`. */
export type Point = `${Step}:${Window}`;

export function stepOf(point: Point): Step {
  return point.split(':')[0] as Step;
}

export function windowOf(point: Point): Window {
  return point.split(':')[1] as Window;
}

/** Every point of these steps, step by step. */
export function pointsOf(steps: readonly Step[]): Point[] {
  return steps.flatMap((step) => WINDOWS.map((window): Point => `${step}:${window}`));
}

/** The points of `--quick`: the claim, the model call, and the points at which the ways differ most. */
export const QUICK_POINTS: readonly Point[] = [
  'claim:inside',
  'claim:between',
  'read:between',
  'model:inside',
  'model:between',
  'post:before',
  'post:inside',
  'post:between',
  'post:after',
  'memory:between',
  'task:inside',
  'task:between',
];
