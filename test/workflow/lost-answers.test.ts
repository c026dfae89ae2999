// In every activity, the connection to Postgres breaks at a COMMIT: before the COMMIT arrives, or after it is done and before
// its answer. The worker cannot distinguish the two cases, and no effect happens twice.

import { activityInfo } from '@temporalio/activity';
import { connectDatabase, type Database } from '../../prisma/client';
import { wakeWorkflowId, type Ending, type OnCrash, type StepState } from '../../workflows/contract';
import { dispatchOnce } from '../../worker/dispatcher';
import { openCommitCutter, type CommitCutter, type Cut } from '../support/commit-cutter';
import { InterceptedDatabase } from '../support/intercepted-database';
import { expectLedgerEqualsRoom, waitForNothingHeld } from '../support/ledger';
import { declareEveryKind, openRoom, type TestRoom } from '../support/rooms';
import { closedRun, startTestWorker, until, type TestWorker } from '../support/runs';
import { answer, startScriptedModel, type ScriptedAnswer, type ScriptedModel } from '../support/scripted-model-server';
import { createWorld, type World } from '../support/world';

const ACTING = ['postReply', 'writeMemory', 'updateTask', 'sendTask'] as const;

interface Case {
  /** The activity and which of its transactions, from 1. */
  readonly activity: string;
  readonly transaction: number;
  readonly cut: Cut;
  readonly onCrash: OnCrash;
  readonly ending: Ending;
  readonly states: readonly StepState[];
  readonly requests: readonly string[];
}

const ALL_DONE = {
  ending: 'replied',
  states: ['done', 'done', 'done', 'done'],
  requests: ['answered'],
} as const;

const CUTS: readonly Cut[] = ['before_commit', 'after_commit'];
const CASES: readonly Case[] = CUTS.flatMap((cut): Case[] => {
  const isDone = cut === 'after_commit';
  const once = { transaction: 1, cut, onCrash: 'stop', ...ALL_DONE } as const;
  return [
    { ...once, activity: 'claimMessage' },
    // A claimed request counts, whether or not it was sent.
    { ...once, activity: 'callModel', requests: isDone ? ['unknown', 'answered'] : ['answered'] },
    // The worker keeps an answer until it is stored, so the request is not repeated.
    { ...once, activity: 'callModel', transaction: 2 },
    { ...once, activity: 'closeRun', ending: 'refused', states: [], requests: ['refused'] },
    ...ACTING.map((activity, position): Case => {
      const states = ACTING.map((_, index): StepState => {
        if (index === position) return isDone ? 'done' : 'failed';
        return index < position ? 'done' : 'not_reached';
      });
      const partly = states.includes('done') ? 'partial' : 'failed';
      const ending = isDone && position === ACTING.length - 1 ? 'replied' : partly;
      return { ...once, activity, ending, states };
    }),
    ...ACTING.map((activity): Case => ({ ...once, activity, onCrash: 'resume' })),
  ];
});

let model: ScriptedModel;
let world: World;
let cutter: CommitCutter;
let database: Database;
let worker: TestWorker;
const opened = new Map<Case, { room: TestRoom; messageId: string }>();
/** The cases by the agent's id. Each case happens once. */
const pending = new Map<string, Case>();

beforeAll(async () => {
  model = await startScriptedModel();
  world = await createWorld({ modelUrl: model.url });
  const url = new URL(world.url);
  cutter = await openCommitCutter(Number(url.port));
  url.port = String(cutter.port);
  database = await connectDatabase(url.toString(), {
    poolSize: 30,
    lockTimeoutMs: 3_000,
    statementTimeoutMs: 5_000,
    transactionTimeoutMs: 8_000,
    applicationName: 'durable-room-test-cut',
  });
  const answers = new Map<string, ScriptedAnswer>();
  model.respond((request) => {
    const shown = request.textOf('user');
    for (const [text, scripted] of answers) if (shown.includes(text)) return scripted;
    throw new Error('the request belongs to no case');
  });
  for (const [index, each] of CASES.entries()) {
    const room = await openRoom(world, { name: String(index), modelUrl: model.url, onCrash: each.onCrash });
    pending.set(room.agent.id, each);
    const marker = `case ${index} of ${CASES.length}.`;
    const { messageId, taskId } = await room.sendTask(marker);
    const refused = answer.error(401, 'invalid_api_key');
    answers.set(marker, each.activity === 'closeRun' ? refused : answer.reply(declareEveryKind(room, taskId)));
    opened.set(each, { room, messageId });
  }
  const patient = { limitMs: 120_000, stepMs: 20_000, heartbeatMs: 20_000 };
  worker = await startTestWorker({ ...world, db: cutting(database) }, { dispatch: false, timeouts: patient });
  await dispatch();
});
afterAll(async () => {
  await worker.stop();
  await database.close();
  await cutter.close();
  await world.close();
  await model.stop();
});

/** Dispatches over a direct connection to Postgres, which is never cut. */
async function dispatch(): Promise<void> {
  const { client, taskQueue } = worker;
  await dispatchOnce({ db: world.db, client, taskQueue, onStartFailed: () => undefined });
}

function cutting(db: Database): Database {
  const transactions = new Map<string, number>();
  return new InterceptedDatabase(db, (work, run) => {
    const { activityType, workflowExecution } = activityInfo();
    const agent = workflowExecution?.workflowId.split('/')[1] ?? '';
    const counted = `${agent} ${activityType}`;
    const number = (transactions.get(counted) ?? 0) + 1;
    transactions.set(counted, number);
    const due = pending.get(agent);
    return run(async (tx) => {
      const result = await work(tx);
      if (due?.activity === activityType && due.transaction === number) {
        const [row] = await tx.$queryRaw<{ port: number }[]>`SELECT inet_client_port() AS port`;
        cutter.cutAtCommit(row?.port ?? 0, due.cut);
      }
      return result;
    });
  });
}

test.each(CASES)('$activity, transaction $transaction, cut $cut, on_crash $onCrash: $ending', async (each) => {
  const { room, messageId } = opened.get(each) as { room: TestRoom; messageId: string };
  const run = await closedRun(world.db, messageId, room.agent.id);
  expect(run).toMatchObject({ ending: each.ending, fencedCount: 0 });
  expect(run.steps.map((step) => step.state)).toEqual(each.states);
  if (run.ending === 'failed' || run.ending === 'partial') expect(run.code).toBe('outcome_unknown');
  expect(run.requests.map((request) => request.outcome)).toEqual(each.requests);
  await expectLedgerEqualsRoom(world.db, run.id);
});

test('every cut happened, and no connection holds a lock', async () => {
  expect(cutter.cuts).toBe(CASES.length);
  await waitForNothingHeld(world.db);
});

test('while Postgres refuses connections the claim is tried again, and a later attempt counts like the first', async () => {
  model.respond(() => answer.reply('Here I am.'));
  cutter.refuse(true);
  const { messageId } = await world.post('@scribe are you there?');
  await dispatch();
  const handle = worker.client.workflow.getHandle(wakeWorkflowId(world.scribe.id, messageId));
  await until('the claim to be tried again', async () => {
    const { raw } = await handle.describe();
    return (raw.pendingActivities?.[0]?.attempt ?? 0) > 1;
  });
  expect(await world.db.agentRunLock.count({ where: { messageId } })).toBe(0);
  cutter.refuse(false);
  const run = await closedRun(world.db, messageId, world.scribe.id);
  expect(run).toMatchObject({ ending: 'replied', fencedCount: 0 });
  expect(run.requests).toHaveLength(1);
  await expectLedgerEqualsRoom(world.db, run.id);
});
