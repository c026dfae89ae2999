// Where a worker can be made to die: steps of the job, and what Temporal and Postgres know at that moment of a step.
// The same names for every way; what a name means in a way whose code has another shape is said in ways.ts.

export const STEPS = ['claim', 'read', 'model', 'post', 'memory', 'task'] as const;
export type Step = (typeof STEPS)[number];

/** The steps that leave something in the room. */
export const EFFECTS = ['post', 'memory', 'task'] as const satisfies readonly Step[];
export type Effect = (typeof EFFECTS)[number];

export const WINDOWS = ['before', 'inside', 'between', 'after'] as const;
export type Window = (typeof WINDOWS)[number];

export const WINDOW_MEANING: Readonly<Record<Window, string>> = {
  before: 'nothing of the step has run',
  inside:
    'the effect is written, COMMIT was not sent (a read: its transaction is open; the model: the request is sent, no answer was read)',
  between:
    'the effect is committed, its record or acknowledgement is not there (the model: the answer is in hand and stored nowhere)',
  after: 'the record or acknowledgement is there, the next step has not begun',
};

/** `post:between`. */
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

/** What `--quick` looks at: the claim, the model, and where the ways differ most. */
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
