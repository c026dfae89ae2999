// Runs without Temporal for tests of the store: delivers wakes, claims runs and stores replies with direct store calls.

import { randomUUID } from 'node:crypto';
import { asyncLocalStorage, type Context } from '@temporalio/activity';
import { createActivities, type Activities } from '../../activities';
import { CONTEXT_TOKENS, renderContext } from '../../activities/context/render';
import { requestReply } from '../../activities/model/provider';
import { claimMessage } from '../../prisma/store/runs/claims';
import type { Execution } from '../../prisma/store/runs/locked-run';
import { claimRequest, endRequest, type RequestResult } from '../../prisma/store/runs/model-requests';
import type { Database } from '../../prisma/store/db/database';
import type { Tx } from '../../prisma/store/db/transaction';
import { deliverWakes } from '../../prisma/store/runs/wakes';
import { NOTHING_DECLARED } from '../../workflows/policy/steps';
import { wakeWorkflowId, type DeclaredReply } from '../../workflows/contract';
import { HOLD_EXPIRY_MS, TEST_TIMEOUTS, until } from './run-waits';
import type { World } from './world';

export const LIMITS = { timeLimitMs: 300_000 };

export interface OpenRun {
  readonly id: string;
  readonly execution: Execution;
  readonly agentId: string;
  readonly messageId: string;
}

/** A new execution for this wake, which can act as the first execution, a duplicate or a reset copy. */
export function newExecution(agentId: string, messageId: string): Execution {
  return { workflowId: wakeWorkflowId(agentId, messageId), temporalRunId: randomUUID() };
}

/** Posts a message for an agent and delivers its wake. */
export async function deliveredWake(world: World, options: { text?: string; hop?: number; task?: boolean } = {}) {
  const text = options.text ?? 'please';
  const posted =
    options.task === true
      ? await world.sendTask(world.scribe.slug, text)
      : await world.post(`@${world.scribe.slug} ${text}`, options.hop === undefined ? {} : { hop: options.hop });
  await deliverWakes(world.db, 100);
  return { agentId: world.scribe.id, messageId: posted.messageId };
}

/** Opens a run: posts a message, delivers its wake and claims it. */
export async function openRun(
  world: World,
  options: { text?: string; hop?: number; task?: boolean } = {},
): Promise<OpenRun> {
  const wake = await deliveredWake(world, options);
  const execution = newExecution(wake.agentId, wake.messageId);
  const claim = await claimMessage(world.db, execution, wake, LIMITS);
  if (claim.kind !== 'granted') throw new Error(`the claim was not granted: ${claim.kind}`);
  return { id: claim.runId, execution, ...wake };
}

export const NO_FACTS = {
  code: null,
  httpStatus: null,
  providerCode: null,
  namedWaitMs: null,
  inputTokens: null,
  outputTokens: null,
  reply: null,
};

export function answered(reply: Partial<DeclaredReply>): RequestResult {
  return { ...NO_FACTS, outcome: 'answered', reply: { ...NOTHING_DECLARED, ...reply } };
}

/** A run with a stored reply. None of its steps is executed. */
export async function repliedRun(world: World, reply: Partial<DeclaredReply>, options = {}): Promise<OpenRun> {
  const run = await openRun(world, options);
  const claim = await claimRequest(world.db, run.execution, run.id, renderContext);
  if (claim.kind !== 'send') throw new Error(`no request could be claimed: ${claim.kind}`);
  await endRequest(world.db, run.execution, run.id, claim.number, answered(reply), claim.target);
  return run;
}

/** The real activities in the context of an attempt of this execution. Discards their logs, because tests assert failures.
 * With a `stepMs`, an acting step waits that long for uncommitted rows. `context` overrides fields of the activity context. */
export function activitiesOf(
  world: World,
  execution: Execution,
  db = world.db,
  stepMs = 0,
  context: Partial<Context> = {},
): Activities {
  const activities = createActivities({
    db,
    secretBox: world.secretBox,
    requestReply,
    timeouts: TEST_TIMEOUTS,
    holdExpiryMs: HOLD_EXPIRY_MS,
    allowedModelHosts: [],
    contextTokens: CONTEXT_TOKENS,
    logFailure: () => undefined,
  });
  const workflowExecution = { workflowId: execution.workflowId, runId: execution.temporalRunId };
  const info = { workflowExecution, startToCloseTimeoutMs: stepMs };
  const inContext = (work: (input: never) => Promise<unknown>) => (input: never) =>
    asyncLocalStorage.run({ info, ...context } as unknown as Context, () => work(input));
  return Object.fromEntries(
    Object.entries(activities).map(([name, work]) => [name, inContext(work)]),
  ) as unknown as Activities;
}

/** Resolves when this many statements of the database wait for a lock. */
export async function untilWaiting(db: Database, count = 1): Promise<void> {
  await until(`${count} waiting for a lock`, async () => {
    const [row] = await db.$queryRaw<{ n: number }[]>`
      SELECT count(*)::int AS n FROM pg_stat_activity
      WHERE datname = current_database() AND wait_event_type = 'Lock' AND state = 'active'`;
    return (row?.n ?? 0) >= count;
  });
}

/** Opens a transaction that keeps its locks until `release`. */
export async function holdTransaction(
  db: Database,
  work: (tx: Tx) => Promise<unknown>,
): Promise<{ release: () => Promise<void> }> {
  let open = (): void => {};
  const gate = new Promise<void>((resolve) => {
    open = resolve;
  });
  let settled: Promise<void> = Promise.resolve();
  await new Promise<void>((ready, failed) => {
    settled = db.transaction(async (tx) => {
      await work(tx);
      ready();
      await gate;
    });
    settled.catch(failed);
  });
  return {
    release: async () => {
      open();
      await settled;
    },
  };
}

/** The events of the room with these types, in the order of the feed. */
export async function eventsOf(world: World, ...types: string[]) {
  return world.db.roomEvent.findMany({
    where: { roomId: world.roomId, ...(types.length > 0 && { type: { in: types } }) },
    orderBy: { seq: 'asc' },
  });
}
