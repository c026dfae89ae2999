// Runs without Temporal: wakes delivered, claims taken and replies stored straight through the store, for tests of it.

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

/** An execution that Temporal might have started for this wake: the first, a duplicate, a reset copy. */
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

/** A run whose claim was granted a moment ago. */
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

/** A run whose model has replied; its steps are still to be taken. */
export async function repliedRun(world: World, reply: Partial<DeclaredReply>, options = {}): Promise<OpenRun> {
  const run = await openRun(world, options);
  const claim = await claimRequest(world.db, run.execution, run.id, renderContext);
  if (claim.kind !== 'send') throw new Error(`no request could be claimed: ${claim.kind}`);
  await endRequest(world.db, run.execution, run.id, claim.number, answered(reply), claim.target);
  return run;
}

/** The real activities, as an attempt of this execution runs them. What they log is thrown away: failures are asserted.
 * With a `stepMs`, an acting step waits that long for what has not committed. `context` is put over the attempt's own. */
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

/** A transaction that stays open, holding what it locked, until `release` or `abandon`. */
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

/** The room's events of these types, in order, as the feed holds them. */
export async function eventsOf(world: World, ...types: string[]) {
  return world.db.roomEvent.findMany({
    where: { roomId: world.roomId, ...(types.length > 0 && { type: { in: types } }) },
    orderBy: { seq: 'asc' },
  });
}
