// Runs random programs against one room of the store: claim, ask, act, close, leave and more, in any order and concurrently.
// interleaving-rooms.ts creates the rooms; interleaving-invariants.ts checks the result.

import { randomUUID } from 'node:crypto';
import { ApplicationFailure, asyncLocalStorage, type Context } from '@temporalio/activity';
import { createActivities, type Activities } from '../../activities';
import { CONTEXT_TOKENS, renderContext } from '../../activities/context/render';
import { claimAsLost, claimMessage } from '../../prisma/store/runs/claims';
import type { Execution } from '../../prisma/store/runs/locked-run';
import { resumeCompany, suspendCompany } from '../../prisma/store/lifecycle/companies';
import { RoomDraft, type Author } from '../../prisma/store/rooms/room-draft';
import { Conflict, Fenced, NotAllowed, NotFound } from '../../prisma/store/db/errors';
import { newId } from '../../prisma/store/db/ids';
import { stageMessage } from '../../prisma/store/rooms/messages';
import { claimRequest, endRequest, type RequestResult } from '../../prisma/store/runs/model-requests';
import { lockRoomForWrite } from '../../prisma/store/rooms/roster';
import { closeAsLost, closeRun, findEnding } from '../../prisma/store/runs/fence';
import { recordVerdict, respondToTask } from '../../prisma/store/rooms/tasks';
import type { Database } from '../../prisma/store/db/database';
import type { Tx } from '../../prisma/store/db/transaction';
import { deliverWakes } from '../../prisma/store/runs/wakes';
import { FAILURE, wakeWorkflowId, type DeclaredReply } from '../../workflows/contract';
import type { CloseReason } from '../../workflows/policy/ending';
import { FIRST_POST, type ProgramRoom } from './interleaving-rooms';
import { HOLD_EXPIRY_MS, TEST_TIMEOUTS } from './run-waits';
import { NOTHING_DECLARED } from '../../workflows/policy/steps';
import { answered, LIMITS, NO_FACTS } from './store-runs';

/** The kinds of commands with their weights. `next` is the next step of a real run; without it, few programs make progress. */
export const COMMAND_WEIGHTS = {
  next: 40,
  claim: 3,
  ask: 3,
  end: 3,
  act: 6,
  close: 1,
  look: 1,
  claimAsLost: 1,
  closeAsLost: 0.7,
  deliver: 3,
  suspend: 0.3,
  resume: 1,
  leave: 0.3,
  comeBack: 1,
  rights: 0.7,
  closeRoom: 0.1,
  post: 2,
  respond: 1,
  judge: 0.5,
} as const;

export type CommandKind = keyof typeof COMMAND_WEIGHTS;

export interface Command {
  readonly kind: CommandKind;
  /** The index of one of the room's three wakes. */
  readonly wake: number;
  /** The index of one of three Temporal runs of its workflow. */
  readonly execution: number;
  /** The index of the pool, modulo their number. */
  readonly pool: number;
  /** Selects the step, outcome, reason or company. */
  readonly variant: number;
  /** Runs at the same time as the command before it. */
  readonly together: boolean;
}

/** The results that the callers of one program received. The rows in Postgres must agree with them. */
export class Trace {
  /** The known run ids, by wake. */
  readonly runs = new Map<number, string>();
  /** Temporal run ids that a claim was granted to, by wake. */
  readonly granted = new Map<number, Set<string>>();
  /** `<run> <number>` of every request that a caller was allowed to send. */
  readonly sends: string[] = [];
  /** The number of fenced calls, by run. */
  readonly fenced = new Map<string, number>();
  /** Errors that are not allowed. */
  readonly unexpected: string[] = [];
  /** The newest request that was given out, by run. */
  readonly lastSent = new Map<string, number>();
  /** The runs whose reply is stored, with the number of steps that `next` has started. */
  readonly stepsTaken = new Map<string, number>();

  countFenced(runId: string): void {
    this.fenced.set(runId, (this.fenced.get(runId) ?? 0) + 1);
  }
}

const REASONS: readonly CloseReason[] = [
  { kind: 'ended' },
  { kind: 'cancelled' },
  { kind: 'timed_out' },
  { kind: 'failed', code: 'no_answer', step: 'memory' },
  { kind: 'failed', code: 'internal' },
  { kind: 'lost' },
];

/** The acting steps that the fullest reply declares, and the activity of each. */
const STEPS: readonly (readonly [keyof Activities, string])[] = [
  ['postReply', 'reply'],
  ['writeMemory', 'memory'],
  ['updateTask', 'task_update:1'],
  ['sendTask', 'task_send:1'],
  ['sendTask', 'task_send:2'],
];

function replyOf(programRoom: ProgramRoom, variant: number): Partial<DeclaredReply> {
  const memory = { category: 'fact', content: 'a line', tags: [], visibility: 'shared' } as const;
  const send = { goal: 'more', acceptance_criteria: [], priority: 'normal', deadline: null } as const;
  const everything = {
    reply: 'Done, @ben.',
    memory,
    task_updates: [{ task: programRoom.taskId, state: 'done', result: 'done' } as const],
    tasks_to_send: [
      { to: 'clerk', ...send },
      { to: 'ben', ...send },
    ],
  };
  const silent = { ...everything, reply: null };
  const invented = { reply: 'Done.', task_updates: [{ task: newId('task'), state: 'done', result: '?' } as const] };
  return [everything, everything, { reply: 'Only this.' }, silent, NOTHING_DECLARED, invented][variant % 6] ?? {};
}

function outcomeOf(programRoom: ProgramRoom, variant: number): RequestResult {
  const others = [
    { ...NO_FACTS, outcome: 'retry', code: 'overloaded', httpStatus: 529 },
    { ...NO_FACTS, outcome: 'aborted' },
    { ...NO_FACTS, outcome: 'failed', code: 'reply_invalid' },
    { ...NO_FACTS, outcome: 'refused', code: 'key_rejected', httpStatus: 401 },
    { ...NO_FACTS, outcome: 'busy', code: 'rate_limit', httpStatus: 429, namedWaitMs: 60_000 },
  ] as const;
  return others[variant - 7] ?? answered(replyOf(programRoom, variant));
}

/** Errors that a random order can cause: a step before the reply, or a step that the reply does not declare. */
const OUT_OF_ORDER = /^(a step acts before a reply is stored|the stored reply declares no such step)$/;

/** Runs the commands of one program in their order, and records the results. */
export class Player {
  readonly trace = new Trace();
  private readonly executions: readonly Execution[][];
  private readonly programRoom: ProgramRoom;
  private readonly pools: readonly Database[];

  constructor(programRoom: ProgramRoom, pools: readonly Database[]) {
    this.programRoom = programRoom;
    this.pools = pools;
    this.executions = programRoom.wakes.map(({ agentId, messageId }) =>
      Array.from({ length: 3 }, () => ({
        workflowId: wakeWorkflowId(agentId, messageId),
        temporalRunId: randomUUID(),
      })),
    );
  }

  /** Runs one command. It never throws: an error that is not allowed is recorded in the trace. */
  async play(command: Command): Promise<void> {
    const runId = this.trace.runs.get(command.wake);
    try {
      await this.execute(command, runId ?? 'run_unknown');
    } catch (error) {
      if (isFenced(error, 'not_mine')) {
        // `look` only reads, so its fenced calls are not counted.
        if (runId !== undefined && command.kind !== 'look') this.trace.countFenced(runId);
      } else if (!isFenced(error, 'closed') && !isExpected(error)) {
        this.trace.unexpected.push(`${command.kind}: ${describe(error)}`);
      }
    }
  }

  private async execute(command: Command, runId: string): Promise<void> {
    const { programRoom, trace } = this;
    const { variant } = command;
    const db = this.pools[command.pool % this.pools.length] as Database;
    const wake = programRoom.wakes[command.wake] as ProgramRoom['wakes'][number];
    const execution = this.executions[command.wake]?.[command.execution] as Execution;
    const company = programRoom.companies[variant % 2] as ProgramRoom['companies'][number];
    switch (command.kind) {
      case 'next': {
        const next = this.nextOf(command, runId);
        return this.execute({ ...command, ...next }, runId);
      }
      case 'claim': {
        const outcome = await claimMessage(db, execution, wake, LIMITS);
        if (outcome.runId === null) return;
        trace.runs.set(command.wake, outcome.runId);
        if (outcome.kind === 'refused') trace.countFenced(outcome.runId);
        else this.recordGranted(command.wake, execution.temporalRunId);
        return;
      }
      case 'ask': {
        const claim = await claimRequest(db, execution, runId, renderContext);
        if (claim.kind !== 'send') return;
        trace.sends.push(`${runId} ${claim.number}`);
        trace.lastSent.set(runId, claim.number);
        return;
      }
      case 'end': {
        const number = variant % 5 === 4 ? 1 : (trace.lastSent.get(runId) ?? 1);
        const sentWith = {
          keyId: programRoom.agents.find(({ id }) => id === wake.agentId)?.keyId ?? null,
          keyVersion: 1,
        };
        const stored = await endRequest(db, execution, runId, number, outcomeOf(programRoom, variant), sentWith);
        if (stored !== null) trace.stepsTaken.set(runId, trace.stepsTaken.get(runId) ?? 0);
        return;
      }
      case 'act': {
        const [activity, step] = STEPS[variant % STEPS.length] as (typeof STEPS)[number];
        await this.activitiesOf(db, execution)[activity]({ run: runId, step } as never);
        return;
      }
      case 'close':
        await closeRun(db, execution, runId, REASONS[variant % REASONS.length] as CloseReason);
        return;
      case 'look':
        await findEnding(db, execution, runId);
        return;
      case 'claimAsLost': {
        const lost = await claimAsLost(db, { ...wake, workflowId: execution.workflowId }, LIMITS);
        if (lost !== null) trace.runs.set(command.wake, lost);
        return;
      }
      case 'closeAsLost':
        if (trace.runs.has(command.wake)) await closeAsLost(db, runId);
        return;
      case 'deliver':
        await deliverWakes(db, 1 + variant);
        return;
      case 'suspend':
        await db.transaction((tx) => suspendCompany(tx, company.id));
        return;
      case 'resume':
        await db.transaction((tx) => resumeCompany(tx, company.id));
        return;
      case 'leave':
      case 'comeBack': {
        const leftAt = command.kind === 'leave' ? new Date() : null;
        await db.roomMember.updateMany({
          where: { roomId: programRoom.roomId, companyId: company.id },
          data: { leftAt },
        });
        return;
      }
      case 'rights': {
        const where = { roomId: programRoom.roomId, agentId: wake.agentId };
        const right = ['go', 'hold', 'refuse'][variant % 3] ?? 'go';
        await db.roomAgent.updateMany({ where, data: variant < 6 ? { rightMemory: right } : { rightReply: right } });
        return;
      }
      case 'closeRoom':
        await db.room.updateMany({ where: { id: programRoom.roomId }, data: { closedAt: new Date() } });
        return;
      case 'post':
        await this.write(db, company.person, async (tx, draft, room) => {
          const text = variant % 3 === 0 ? '@ana once more' : 'no mention';
          await stageMessage(tx, draft, room, { author: company.person, text, mentions: [], ...FIRST_POST });
        });
        return;
      case 'respond':
        await this.write(db, programRoom.agents[0] as Author, async (tx, draft, room) => {
          const response = {
            taskId: programRoom.taskId,
            state: 'failed',
            result: 'by hand',
            hop: 1,
            runId: null,
          } as const;
          await respondToTask(tx, draft, room, { ...response, responder: programRoom.agents[0] as Author });
        });
        return;
      case 'judge':
        await this.write(db, programRoom.companies[0]?.person as Author, async (tx, draft, room) => {
          const judge = programRoom.companies[0]?.person as Author;
          await recordVerdict(tx, draft, room, { judge, taskId: programRoom.taskId, verdict: 'accepted', note: null });
        });
        return;
    }
  }

  private nextOf({ wake, variant }: Command, runId: string): Partial<Command> {
    const { trace } = this;
    if (!trace.runs.has(wake)) return { kind: 'claim' };
    const taken = trace.stepsTaken.get(runId);
    if (taken !== undefined) {
      trace.stepsTaken.set(runId, taken + 1);
      return { kind: 'act', variant: taken };
    }
    if (!trace.lastSent.has(runId)) return { kind: 'ask' };
    return variant > 6 ? { kind: 'ask' } : { kind: 'end' };
  }

  private async write(
    db: Database,
    author: Author,
    work: (tx: Tx, draft: RoomDraft, room: Awaited<ReturnType<typeof lockRoomForWrite>>) => Promise<void>,
  ): Promise<void> {
    await db.transaction(async (tx) => {
      const room = await lockRoomForWrite(tx, this.programRoom.roomId, author.companyId);
      const draft = new RoomDraft(this.programRoom.roomId);
      await work(tx, draft, room);
      await draft.append(tx);
    });
  }

  private recordGranted(wake: number, temporalRunId: string): void {
    const granted = this.trace.granted.get(wake) ?? new Set<string>();
    this.trace.granted.set(wake, granted.add(temporalRunId));
  }

  private activitiesOf(db: Database, execution: Execution): Activities {
    const activities = createActivities({
      db,
      secretBox: { seal: never, open: never, keyIdOf: never },
      requestReply: never,
      timeouts: TEST_TIMEOUTS,
      holdExpiryMs: HOLD_EXPIRY_MS,
      allowedModelHosts: [],
      contextTokens: CONTEXT_TOKENS,
      logFailure: ({ activity, error }) => {
        if (error instanceof Error && OUT_OF_ORDER.test(error.message)) return;
        this.trace.unexpected.push(`${activity}: ${describe(error)}`);
      },
    });
    const info = { workflowExecution: { workflowId: execution.workflowId, runId: execution.temporalRunId } };
    const inContext = (work: (input: never) => Promise<unknown>) => (input: never) =>
      asyncLocalStorage.run({ info } as unknown as Context, () => work(input));
    return Object.fromEntries(
      Object.entries(activities).map(([name, work]) => [name, inContext(work)]),
    ) as unknown as Activities;
  }
}

function never(): never {
  throw new Error('these programs call no model');
}

function isFenced(error: unknown, why: string): boolean {
  if (error instanceof Fenced) return error.why === why;
  return error instanceof ApplicationFailure && error.type === FAILURE.fenced && error.message.endsWith(why);
}

// logFailure has already checked the message of an ApplicationFailure of type bug.
function isExpected(error: unknown): boolean {
  if (error instanceof ApplicationFailure) return error.type === FAILURE.bug;
  return error instanceof NotFound || error instanceof Conflict || error instanceof NotAllowed;
}

function describe(error: unknown): string {
  return error instanceof Error ? `${error.name}: ${error.message}` : String(error);
}
