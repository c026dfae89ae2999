// The points at which a test can kill or hold a worker, named by the knowledge of Temporal and Postgres at that moment.

const EVERY_ACTIVITY = {
  /** Temporal has handed out the attempt; none of its code has run. */
  before: 'the attempt is handed out and has not begun',
  /** In its transaction: everything is written, and COMMIT was not sent. */
  inside: 'its effect is written in a transaction that is not committed',
  /** COMMIT is done, and Temporal does not have the result. */
  committed: 'its effect is committed and Temporal does not know',
  /** Between two steps: Temporal has the result and does not have the next command. */
  acknowledged: 'Temporal has its result and does not know what comes next',
} as const;

/** A model call also has a request, and a second transaction that records the answer. */
const MODEL_CALL = {
  ...EVERY_ACTIVITY,
  /** The request is claimed and sent to its last byte; no answer was read. */
  sent: 'its request is claimed and sent, and not answered',
  reply_inside: 'the answer is written in a transaction that is not committed',
  reply_committed: 'the answer is committed and Temporal does not know',
} as const;

/** The decision of a held action is outside of the run's activities: a person decides, and a dispatcher signals the workflow. */
const DECISION = {
  /** No worker has work of the run. */
  parked: 'the run is parked, and no decision was made',
  before: 'the decision is committed and its signal was not sent',
  /** The approved step continues at the same time. */
  sent: 'Temporal has the signal and the outbox does not know',
  acknowledged: 'Temporal has the signal and does not know what comes next',
} as const;

/** Every crash point: activity, window, and its description. For `callModel`, the first windows belong to the claim of the request. */
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

/** For example `postReply:inside`. */
export type CrashPoint = {
  [Activity in keyof Points]: `${Activity}:${keyof Points[Activity] & string}`;
}[keyof Points];

export const ALL_CRASH_POINTS: readonly CrashPoint[] = Object.entries(CRASH_POINTS).flatMap(([activity, windows]) =>
  Object.keys(windows).map((window) => `${activity}:${window}` as CrashPoint),
);

/** The action of a worker at its point: end by SIGKILL, or send `reached` and wait for its parent. */
export const CRASH_ACTIONS = ['kill', 'stop'] as const;
export type CrashAction = (typeof CRASH_ACTIONS)[number];

/** Sent by a worker that waits at its point. */
export interface ReachedMessage {
  readonly type: 'reached';
  readonly point: CrashPoint;
  readonly workflowId: string;
}

/** Sent by the parent: every held run continues, and no point holds a run any more. */
export interface GoMessage {
  readonly type: 'go';
}

/** Sent by a worker that cut the connection of a run at its first COMMIT after its release. */
export interface CutMessage {
  readonly type: 'cut';
  readonly workflowId: string;
  readonly activity: string;
  /** The number of the transaction in the attempt, from 1. */
  readonly transaction: number;
}
