// What the ledger and the room know of one run, as entries in time order: ids, states and codes, never content. What
// Temporal knows of it is temporal/history-entries.ts', and temporal/timeline.ts makes one list of both.

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
 * The run that a timeline is about. A viewer finds only its own company's; null is whoever runs the deployment.
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

/** One kind of thing that happened to a run. Another one is another line in `SOURCES`. */
type LedgerSource = (reader: Reader, run: TimelineRun) => Promise<TimelineEntry[]> | TimelineEntry[];

/** In the order in which entries of one moment stand: what came first in the run. */
const SOURCES: readonly LedgerSource[] = [
  wakeEntries,
  claimEntries,
  requestEntries,
  holdEntries,
  stepEntries,
  roomEntries,
  endings,
];

/** Everything that Postgres remembers of a run, oldest first. */
export async function ledgerEntries(reader: Reader, run: TimelineRun): Promise<TimelineEntry[]> {
  const entries: TimelineEntry[] = [];
  for (const source of SOURCES) entries.push(...(await source(reader, run)));
  return entries.sort((a, b) => a.at.getTime() - b.at.getTime());
}

/** A declared step that did nothing, or has done nothing yet. */
export interface StepNotDone {
  readonly step: string;
  /** As in the ledger; `to_come` while the run is open. */
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
      ? 'the reconciler takes the claim, so that nobody ever can: no workflow is left to do it'
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

/** What waited for somebody's yes, and what came of it: a decision, the end of its time, or of what it was meant for. */
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

/** What everybody in the room could see of it: the message that woke the agent, and what the run wrote. */
async function roomEntries(reader: Reader, run: TimelineRun): Promise<TimelineEntry[]> {
  const messages = await reader.message.findMany({
    where: { OR: [{ id: run.messageId }, { runId: run.id }] },
    select: { id: true, seq: true, taskId: true },
  });
  // A message has its event's number. The card that woke the agent is of a task, which its claim may have started.
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
  const who = run.cancelledBy === null ? '' : `, by ${run.cancelledBy}`;
  const message = `run is closed: ${ending}${why}${who}; no late attempt can write any more`;
  return [{ at, source: 'ledger', kind: 'ending', message, facts: { run: run.id, ending, code } }];
}
