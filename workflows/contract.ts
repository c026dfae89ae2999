// The contract of a run: ids, the queue, closed sets, inputs and results. Every other folder reads it.
// No runtime import: this file is bundled into the workflow sandbox.

export const TASK_QUEUE = 'durable-room';
export const WORKFLOW_TYPE = 'agentRun';

/** The workflow id of a wake. One per (agent, message), so Temporal itself refuses a second start while it remembers. */
export function wakeWorkflowId(agentId: string, messageId: string): string {
  return `wake/${agentId}/${messageId}`;
}

/** The kinds of steps, in the order in which the steps of a run execute. Their rules are in policy/steps.ts. */
export const STEP_KINDS = ['reply', 'memory', 'task_update', 'task_send'] as const;
export type StepKind = (typeof STEP_KINDS)[number];

export const RIGHTS = ['go', 'hold', 'refuse'] as const;
export type Right = (typeof RIGHTS)[number];
/** What an agent may do in a room without approval, per kind of step. */
export type Rights = Readonly<Record<StepKind, Right>>;

export const ON_CRASH = ['stop', 'resume'] as const;
/** `stop`: a step gets one attempt. `resume`: it is retried under its step key. Neither acts twice. */
export type OnCrash = (typeof ON_CRASH)[number];

export const WAKE_STATES = ['pending', 'delivered', 'claimed', 'suppressed'] as const;
export type WakeState = (typeof WAKE_STATES)[number];

export const SUPPRESSED_REASONS = [
  'paused',
  'allowance',
  'hop_limit',
  'key_rejected',
  'budget',
  'not_a_member',
  'room_closed',
  'suspended',
] as const;
export type SuppressedReason = (typeof SUPPRESSED_REASONS)[number];

export const ENDINGS = [
  'replied',
  'silent',
  'partial',
  'failed',
  'not_allowed',
  'refused',
  'busy',
  'timed_out',
  'declined',
  'expired',
  'cancelled',
  'lost',
] as const;
export type Ending = (typeof ENDINGS)[number];

export const STEP_STATES = ['done', 'failed', 'declined', 'expired', 'refused', 'superseded', 'not_reached'] as const;
export type StepState = (typeof STEP_STATES)[number];

/**
 * States of a held action.
 *
 *   held ──approve──▶ approved ──its step──▶ executed | superseded | failed
 *     ├──decline──▶ declined
 *     ├──its time ends──▶ expired
 *     └──the run ends first──▶ superseded
 */
export const HELD_ACTION_STATES = [
  'held',
  'approved',
  'declined',
  'expired',
  'superseded',
  'executed',
  'failed',
] as const;
export type HeldActionState = (typeof HELD_ACTION_STATES)[number];

/** A person's decision about a held action. */
export const DECISIONS = ['approve', 'decline'] as const;
export type Decision = (typeof DECISIONS)[number];

/** Why a workflow is signalled: a held action was decided, or the run may have been closed elsewhere. */
export const RUN_SIGNAL_KINDS = ['decision', 'recheck'] as const;
export type RunSignalKind = (typeof RUN_SIGNAL_KINDS)[number];

export const MEMORY_CATEGORIES = ['decision', 'requirement', 'dependency', 'fact', 'other'] as const;
export type MemoryCategory = (typeof MEMORY_CATEGORIES)[number];

export const MEMORY_VISIBILITIES = ['shared', 'private'] as const;
export type MemoryVisibility = (typeof MEMORY_VISIBILITIES)[number];

export const TASK_PRIORITIES = ['low', 'normal', 'high', 'urgent'] as const;
export type TaskPriority = (typeof TASK_PRIORITIES)[number];

export const TASK_OUTCOMES = ['done', 'failed', 'escalated'] as const;
export type TaskOutcome = (typeof TASK_OUTCOMES)[number];

/** Most text a message, a goal, a result or a memory line may hold, in UTF-16 code units. */
export const TEXT_LIMIT = 32_000;
/** Most tasks, sent and updated together, that one reply may declare. */
export const DECLARED_TASKS_LIMIT = 20;
/** Most wakes that one message may cause. */
export const WAKES_PER_MESSAGE_LIMIT = 10;
/** Most model requests in the life of a run, whatever crashes. */
export const MODEL_REQUESTS_LIMIT = 3;
/** The longest wait named by a provider that a run accepts; a longer one ends the run as `busy`. */
export const NAMED_WAIT_LIMIT_MS = 20_000;

export interface DeclaredMemory {
  readonly category: MemoryCategory;
  readonly content: string;
  readonly tags: readonly string[];
  readonly visibility: MemoryVisibility;
}

export interface DeclaredTaskUpdate {
  /** Id of an open task sent to the agent of this run. Checked when the step executes: models invent ids. */
  readonly task: string;
  readonly state: TaskOutcome;
  readonly result: string;
}

export interface DeclaredTaskSend {
  /** Slug of the agent on the roster that the task is for. */
  readonly to: string;
  readonly goal: string;
  readonly acceptance_criteria: readonly string[];
  readonly priority: TaskPriority;
  /** RFC 3339 time or full date, or null. */
  readonly deadline: string | null;
}

/** What a model's reply declares. Content: it stays in Postgres and never enters a history. */
export interface DeclaredReply {
  /** The text to post, or null for no message. */
  readonly reply: string | null;
  readonly memory: DeclaredMemory | null;
  readonly task_updates: readonly DeclaredTaskUpdate[];
  readonly tasks_to_send: readonly DeclaredTaskSend[];
}

interface ActionFields {
  readonly reply: { readonly text: string };
  readonly memory: DeclaredMemory;
  readonly task_update: DeclaredTaskUpdate;
  readonly task_send: DeclaredTaskSend;
}

/** The action of one step of this kind. */
export type ActionOf<K extends StepKind> = { readonly [Kind in K]: { readonly kind: Kind } & ActionFields[Kind] }[K];

/** One action of a reply, as a hold freezes it and a step executes it. */
export type DeclaredAction = ActionOf<StepKind>;

/** Provider failures after which another request may succeed. */
export const RETRY_CODES = [
  'rate_limit',
  'overloaded',
  'server_error',
  'timeout',
  'connection',
  'unreadable_answer',
  'unknown',
] as const;
export type RetryCode = (typeof RETRY_CODES)[number];

/** Provider failures that another request would repeat. */
export const REFUSAL_CODES = [
  'quota',
  'spending_limit',
  'key_rejected',
  'unknown_model',
  'malformed_request',
  'context_too_long',
  'model_declined',
  'unknown_host',
  'bad_certificate',
  'redirect',
  'address_refused',
] as const;
export type RefusalCode = (typeof REFUSAL_CODES)[number];

/** Why a received reply is unusable. */
export const REPLY_FAILURE_CODES = ['reply_invalid', 'reply_too_long', 'reply_truncated', 'reply_empty'] as const;
export type ReplyFailureCode = (typeof REPLY_FAILURE_CODES)[number];

/** Input of `agentRun`. Ids only: everything else is read in Postgres by the claim. */
export interface AgentRunInput {
  readonly agent: string;
  readonly message: string;
}

/** Result of `agentRun`, as an engineer reads it in the history. */
export type AgentRunResult =
  | { readonly result: 'ended'; readonly run: string; readonly ending: Ending }
  /** There is no delivered wake to claim. Nothing was read or changed. */
  | { readonly result: 'refused'; readonly why: string }
  /** Another execution owns the run. Counted on that run. */
  | { readonly result: 'fenced'; readonly why: string; readonly run: string };

/** Time limits from the configuration of the worker that granted the claim. Recorded with the claim. */
export interface RunTimeouts {
  /** From the claim to the ending. */
  readonly limitMs: number;
  /** One attempt of an acting step. Longer than Postgres's own timeouts, so that Postgres gives up first. */
  readonly stepMs: number;
  /** One attempt of the model call, its request included. */
  readonly modelMs: number;
  /** A model call without a heartbeat for this long counts as dead. */
  readonly heartbeatMs: number;
}

export type ClaimResult =
  | { readonly status: 'granted'; readonly run: string; readonly onCrash: OnCrash; readonly t: RunTimeouts }
  | { readonly status: 'closed'; readonly run: string; readonly ending: Ending }
  | { readonly status: 'refused'; readonly why: string; readonly run?: string };

/** The result of a model call in the history: kinds, rights and a hash, never content. */
export type ModelCallResult =
  | {
      readonly status: 'reply';
      readonly sha256: string;
      readonly declared: readonly StepKind[];
      readonly rights: Rights;
      /** A declared step needs approval, so the holds must be opened. Absent from histories older than held actions. */
      readonly holds?: true;
    }
  /** No reply came, and none will. The ledger has the reason. */
  | { readonly status: 'settled' }
  | { readonly status: 'closed'; readonly ending: Ending };

export interface StepResult {
  /** `held`: the step did nothing, because it is not approved. */
  readonly state: StepState | 'held';
  /** The run's ending, when this step was its last. */
  readonly ending?: Ending;
}

/** Types of the failures that activities throw. */
export const FAILURE = {
  /** No effect: another execution owns the run, or the run is closed. Not retryable. */
  fenced: 'Fenced',
  /** Postgres did not answer; the outcome may be unknown. Retryable. */
  transient: 'Transient',
  /** The provider may answer another request. Retryable, after the wait that it named. */
  modelBusy: 'ModelBusy',
  /** A bug in this code. Not retryable: it would happen again. */
  bug: 'Bug',
} as const;
