// The timeline of one run from the ledger and the room: ids, states and codes, never content. The entries from Temporal are
// in worker/temporal/history-entries.ts, and worker/temporal/timeline.ts merges both.

import type { DeclaredReply } from '../../../workflows/contract';
import { declaredKinds, planSteps } from '../../../workflows/policy/steps';
import type { Prisma } from '../../generated/client';
import { NotFound } from '../db/errors';
import type { Reader } from '../db/transaction';
import { roomsOf, type Viewer } from '../access/viewer';

export const TIMELINE_SOURCES = ['ledger', 'room', 'temporal'] as const;
export type TimelineSource = (typeof TIMELINE_SOURCES)[number];

export const TIMELINE_KINDS = [
  'wake',
  'claim',
  'request',
  'step',
  'hold',
  'decision',
  'ending',
  'room_event',
  'history_event',
  'attempt',
  'execution',
] as const;
export type TimelineKind = (typeof TIMELINE_KINDS)[number];

export interface TimelineEntry {
  readonly at: Date;
  readonly source: TimelineSource;
  readonly kind: TimelineKind;
  /** One line for a person. */
  readonly message: string;
  /** The same for a program. */
  readonly facts: Readonly<Record<string, string | number | null>>;
}

const WITH_LEDGER = {
  steps: { orderBy: { position: 'asc' } },
  requests: { orderBy: { number: 'asc' } },
} satisfies Prisma.RunInclude;

export type TimelineRun = Prisma.RunGetPayload<{ include: typeof WITH_LEDGER; omit: { context: true } }>;

/**
 * Reads the run of a timeline. A viewer sees only runs of its own company; a null viewer is the operator.
 * @throws NotFound
 */
export async function loadTimelineRun(reader: Reader, viewer: Viewer | null, runId: string): Promise<TimelineRun> {
  const run = await reader.run.findFirst({
    where: { id: runId, ...(viewer !== null && { companyId: viewer.companyId, room: roomsOf(viewer) }) },
    include: WITH_LEDGER,
    omit: { context: true },
  });
  if (!run) throw new NotFound('no such run');
  return run;
}

/** Reads the entries of one kind. A new kind needs a line in `SOURCES`. */
type LedgerSource = (reader: Reader, run: TimelineRun) => Promise<TimelineEntry[]> | TimelineEntry[];

/** In the order of a run, which is the order of entries with the same time. */
const SOURCES: readonly LedgerSource[] = [
  wakeEntries,
  claimEntries,
  requestEntries,
  holdEntries,
  stepEntries,
  roomEntries,
  endings,
];

/** The timeline entries of a run from Postgres, oldest first. */
export async function ledgerEntries(reader: Reader, run: TimelineRun): Promise<TimelineEntry[]> {
  const entries: TimelineEntry[] = [];
  for (const source of SOURCES) entries.push(...(await source(reader, run)));
  return entries.sort((a, b) => a.at.getTime() - b.at.getTime());
}

/** A declared step that is not done. */
export interface StepNotDone {
  readonly step: string;
  /** The state in the ledger, or `to_come` for a step without a record. */
  readonly state: string;
  readonly code: string | null;
}

export function stepsNotDone(run: TimelineRun): StepNotDone[] {
  const recorded = new Map(run.steps.map((step) => [step.stepKey, step]));
  const declared = run.reply === null ? [] : planSteps(declaredKinds(run.reply as unknown as DeclaredReply));
  return declared.flatMap(({ key }) => {
    const step = recorded.get(key);
    if (step?.state === 'done') return [];
    return [{ step: key, state: step?.state ?? 'to_come', code: step?.code ?? null }];
  });
}

async function wakeEntries(reader: Reader, run: TimelineRun): Promise<TimelineEntry[]> {
  const wake = await reader.wake.findUnique({ where: { id: run.wakeId } });
  if (!wake) return [];
  const facts = { wake: wake.id };
  const moments: [Date | null, string, string][] = [
    [wake.createdAt, 'pending', `wake is written: message ${wake.messageId} is for agent ${wake.agentId}`],
    [wake.deliveredAt, 'delivered', 'wake is delivered: its gates were open, and its allowance is spent'],
    [wake.startedAt, 'started', `Temporal has the start of ${run.workflowId}`],
  ];
  return moments.flatMap(([at, state, message]) =>
    at === null ? [] : [{ at, source: 'ledger', kind: 'wake', message, facts: { ...facts, state } }],
  );
}

function claimEntries(_: Reader, run: TimelineRun): TimelineEntry[] {
  const { temporalRunId, claimedAt: at } = run;
  const message =
    temporalRunId === null
      ? 'the reconciler takes the claim, so that no execution can: no workflow is left to do it'
      : `claim is granted, once and for good, to Temporal run ${temporalRunId}`;
  return [{ at, source: 'ledger', kind: 'claim', message, facts: { run: run.id, temporal_run: temporalRunId } }];
}

function requestEntries(_: Reader, run: TimelineRun): TimelineEntry[] {
  return run.requests.flatMap((request): TimelineEntry[] => {
    const { number, outcome, code, httpStatus } = request;
    const common = { source: 'ledger', kind: 'request' } as const;
    const sent: TimelineEntry = {
      ...common,
      at: request.claimedAt,
      message: `model request ${number} is claimed, then sent`,
      facts: { request: number, outcome: 'in_flight' },
    };
    if (request.endedAt === null) return [sent];
    const why = [code, httpStatus === null ? null : `HTTP ${httpStatus}`, request.providerCode].filter(
      (part) => part !== null,
    );
    const reasons = why.length === 0 ? '' : ` (${why.join(', ')})`;
    const message = `model request ${number} ends: ${outcome}${reasons}`;
    return [sent, { ...common, at: request.endedAt, message, facts: { request: number, outcome, code } }];
  });
}

/** The held actions, and how each ended: decided, expired or superseded. */
async function holdEntries(reader: Reader, run: TimelineRun): Promise<TimelineEntry[]> {
  const holds = await reader.heldAction.findMany({ where: { runId: run.id }, orderBy: { id: 'asc' } });
  return holds.flatMap((hold): TimelineEntry[] => {
    const { id: held, stepKey: step, decision, decidedByName, decidedAt } = hold;
    const source = 'ledger';
    const opened: TimelineEntry = {
      at: hold.openedAt,
      source,
      kind: 'hold',
      message: `${step} is held until a person decides`,
      facts: { held, step, state: 'held' },
    };
    if (hold.state === 'held') return [opened];
    const state = decision === null ? hold.state : decision === 'approve' ? 'approved' : 'declined';
    const by = decidedByName === null ? '' : ` by ${decidedByName}`;
    const message = `${step} is ${state}${by}`;
    return [
      opened,
      { at: decidedAt ?? hold.changedAt, source, kind: 'decision', message, facts: { held, step, state } },
    ];
  });
}

function stepEntries(_: Reader, run: TimelineRun): TimelineEntry[] {
  return run.steps.map(({ stepKey: step, state, code, effectId, at }) => {
    const why = code === null ? '' : ` (${code})`;
    const message = state === 'done' ? `${step} is done: ${effectId ?? 'nothing written'}` : `${step}: ${state}${why}`;
    return { at, source: 'ledger', kind: 'step', message, facts: { step, state, code, effect: effectId } };
  });
}

/** The room events of a run, which every member sees: the waking message, and the events that the run wrote. */
async function roomEntries(reader: Reader, run: TimelineRun): Promise<TimelineEntry[]> {
  const messages = await reader.message.findMany({
    where: { OR: [{ id: run.messageId }, { runId: run.id }] },
    select: { id: true, seq: true, taskId: true },
  });
  // A message and its event have the same number. If a task card woke the agent, the claim may have started the task.
  const started = messages.find((message) => message.id === run.messageId)?.taskId ?? null;
  const effects = run.steps.map((step) => step.effectId).filter((id) => id !== null);
  const events = await reader.roomEvent.findMany({
    where: {
      roomId: run.roomId,
      OR: [
        { seq: { in: messages.map((message) => message.seq) } },
        { subjectId: { in: [run.id, ...effects] }, type: { in: ['run_ended', 'memory'] } },
        ...(started === null ? [] : [{ subjectId: started, type: 'task_started' }]),
      ],
    },
    orderBy: { seq: 'asc' },
    select: { seq: true, id: true, type: true, subjectId: true, at: true },
  });
  return events.map(({ seq, id, type, subjectId, at }) => ({
    at,
    source: 'room',
    kind: 'room_event',
    message: `room event ${seq}: ${type} ${subjectId}`,
    facts: { seq: Number(seq), event: id, type, subject: subjectId },
  }));
}

function endings(_: Reader, run: TimelineRun): TimelineEntry[] {
  const { ending, code, closedAt: at } = run;
  if (at === null) return [];
  const why = code === null ? '' : ` (${code})`;
  const by = run.cancelledBy === null ? '' : `, by ${run.cancelledBy}`;
  const message = `run is closed: ${ending}${why}${by}; no late attempt can write any more`;
  return [{ at, source: 'ledger', kind: 'ending', message, facts: { run: run.id, ending, code } }];
}
