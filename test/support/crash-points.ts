// The places at which a worker can be made to die, named by what Temporal and Postgres know at that moment.

const EVERY_ACTIVITY = {
  /** The attempt was handed out; nothing of its code has run. */
  before: 'the attempt is handed out and has not begun',
  /** In its transaction: everything is written, COMMIT was not sent. */
  inside: 'its effect is written in a transaction that is not committed',
  /** COMMIT is done, and Temporal does not know. */
  committed: 'its effect is committed and Temporal does not know',
  /** Between two steps: Temporal has the result, and was not yet told what comes next. */
  acknowledged: 'Temporal has its result and does not know what comes next',
} as const;

/** Beside these, a model call has its request, and a second transaction, which records the answer. */
const MODEL_CALL = {
  ...EVERY_ACTIVITY,
  /** The request is claimed, and its last byte was handed to the network; no answer was read. */
  sent: 'its request is claimed and sent, and not answered',
  reply_inside: 'the answer is written in a transaction that is not committed',
  reply_committed: 'the answer is committed and Temporal does not know',
} as const;

/** A held action is decided beside the run's activities: by a person, and by the dispatcher that tells the workflow. */
const DECISION = {
  /** Nothing of the run is in a worker. */
  parked: 'the run is parked, and nobody has decided',
  before: 'the decision is committed and its signal was not sent',
  /** The step that it allows goes on meanwhile. */
  sent: 'Temporal has the signal and the outbox does not know',
  acknowledged: 'Temporal has the signal and does not know what comes next',
} as const;

/** Every crash point: activity, window, and what is true while it is open. For `callModel`, the first windows are those of claiming its request. */
export const CRASH_POINTS = {
  claimMessage: EVERY_ACTIVITY,
  callModel: MODEL_CALL,
  openHeldActions: EVERY_ACTIVITY,
  decision: DECISION,
  postReply: EVERY_ACTIVITY,
  writeMemory: EVERY_ACTIVITY,
  updateTask: EVERY_ACTIVITY,
  sendTask: EVERY_ACTIVITY,
  closeRun: EVERY_ACTIVITY,
} as const;

type Points = typeof CRASH_POINTS;

/** `postReply:inside`. */
export type CrashPoint = {
  [Activity in keyof Points]: `${Activity}:${keyof Points[Activity] & string}`;
}[keyof Points];

export const ALL_CRASH_POINTS: readonly CrashPoint[] = Object.entries(CRASH_POINTS).flatMap(([activity, windows]) =>
  Object.keys(windows).map((window) => `${activity}:${window}` as CrashPoint),
);

/** What a worker does at its point: die by SIGKILL, or say `reached` and stand there until its parent decides. */
export const CRASH_ACTIONS = ['kill', 'stop'] as const;
export type CrashAction = (typeof CRASH_ACTIONS)[number];

/** Sent by a worker that stands at its point. */
export interface ReachedMessage {
  readonly type: 'reached';
  readonly point: CrashPoint;
  readonly workflowId: string;
}

/** Sent by the parent: everything that stands goes on, and no point stops anything any more. */
export interface GoMessage {
  readonly type: 'go';
}

/** Sent by a worker that cut the connection of a run at its first COMMIT after it was let go: `callModel`'s second, say. */
export interface CutMessage {
  readonly type: 'cut';
  readonly workflowId: string;
  readonly activity: string;
  /** Which of the attempt's transactions, from 1. */
  readonly transaction: number;
}
