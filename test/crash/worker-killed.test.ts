// A worker is killed at every crash point of a run, and between two steps while another worker runs.

import { randomBytes } from 'node:crypto';
import { countParked, decideAfterFault, decideBeforeFault, holdTaskSends } from '../support/crash-holds';
import { ALL_CRASH_POINTS, type CrashPoint } from '../support/crash-points';
import { expectLedgerEqualsRoom, waitForNothingHeld } from '../support/ledger';
import { declareEveryKind, openRoom, type TestRoom } from '../support/rooms';
import { closedRun, until } from '../support/runs';
import { answer, startScriptedModel, type ScriptedAnswer, type ScriptedModel } from '../support/scripted-model-server';
import { endWorkers, forkCrashWorker, forkWorker, workerEnv, type WorkerProcess } from '../support/worker-processes';
import { createWorld, type World } from '../support/world';
import { ON_CRASH, type Ending, type OnCrash, type StepState } from '../../workflows/contract';

/** The keys of the steps that `declareEveryKind` declares, in the order of execution. */
const STEPS = ['reply', 'memory', 'task_update:1', 'task_send:1'] as const;
const ACTING = ['postReply', 'writeMemory', 'updateTask', 'sendTask'] as const;

interface Expected {
  readonly ending: Ending;
  readonly states: readonly StepState[];
  /** The recorded outcome of each request. */
  readonly requests: readonly string[];
  /** Requests that reached the provider. */
  readonly sent: number;
}

interface Case {
  readonly point: CrashPoint;
  readonly onCrash: OnCrash;
  readonly expected: Expected;
}

const ALL_DONE: Expected = {
  ending: 'replied',
  states: ['done', 'done', 'done', 'done'],
  requests: ['answered'],
  sent: 1,
};

function expectedAt(point: CrashPoint, onCrash: OnCrash): Expected {
  const [activity, window] = point.split(':') as [string, string];
  if (activity === 'closeRun') return { ending: 'refused', states: [], requests: ['refused'], sent: 1 };
  if (activity === 'callModel') {
    const unanswered = { ...ALL_DONE, requests: ['unknown', 'answered'] };
    // The request was claimed and not sent. It still counts.
    if (window === 'committed') return unanswered;
    return window === 'sent' || window === 'reply_inside' ? { ...unanswered, sent: 2 } : ALL_DONE;
  }
  const position = ACTING.findIndex((name) => name === activity);
  if (position < 0 || onCrash === 'resume' || window === 'acknowledged') return ALL_DONE;
  const isDone = window === 'committed';
  if (isDone && position === STEPS.length - 1) return ALL_DONE;
  const states = STEPS.map((_, index): StepState => {
    if (index === position) return isDone ? 'done' : 'failed';
    return index < position ? 'done' : 'not_reached';
  });
  return { ...ALL_DONE, ending: states.includes('done') ? 'partial' : 'failed', states };
}

const CASES: readonly Case[] = ON_CRASH.flatMap((onCrash) =>
  ALL_CRASH_POINTS.map((point) => ({ point, onCrash, expected: expectedAt(point, onCrash) })),
);

let model: ScriptedModel;
const worlds: World[] = [];

beforeAll(async () => {
  model = await startScriptedModel();
});
afterAll(async () => {
  await endWorkers();
  for (const world of worlds) await world.close();
  await model.stop();
});

async function openWorld(): Promise<{ world: World; env: Record<string, string> }> {
  const world = await createWorld({ modelUrl: model.url });
  worlds.push(world);
  return { world, env: workerEnv(world, `test-${randomBytes(6).toString('hex')}`) };
}

test('after a kill between two steps, the run continues on another worker and no step acts twice', async () => {
  const { world, env } = await openWorld();
  const room = await openRoom(world, { name: 'between', modelUrl: model.url });
  const posted = await room.sendTask('between two steps');
  model.script(answer.reply(declareEveryKind(room, posted.taskId)));
  const first = forkCrashWorker(env, { points: ['postReply:acknowledged'], action: 'stop' });
  await first.reached('postReply:acknowledged');
  const requests = model.requests.length;
  const second = forkWorker(env);
  await second.ready;
  await first.kill();

  const run = await closedRun(world.db, posted.messageId);
  expect(run).toMatchObject({ ending: 'replied', code: null, fencedCount: 0 });
  expect(run.steps.map((step) => [step.stepKey, step.state])).toEqual(STEPS.map((key) => [key, 'done']));
  expect(run.requests).toHaveLength(1);
  expect(model.requests).toHaveLength(requests);
  await expectLedgerEqualsRoom(world.db, run.id);
  await waitForNothingHeld(world.db);
  await second.kill();
});

test('unfinished steps of a killed worker are not repeated; the run of the next message sees what was done', async () => {
  const { world, env } = await openWorld();
  const room = await openRoom(world, { name: 'left', modelUrl: model.url });
  const sent = await room.sendTask('the task that stays open');
  const lines = { category: 'fact', tags: [], visibility: 'shared' } as const;
  // The first run passes the point, the second dies at it.
  model.script(answer.reply({ reply: 'One.', memory: { ...lines, content: 'first line' } }));
  const first = forkCrashWorker(env, { points: ['writeMemory:inside'], action: 'kill', after: 1 });
  const before = await closedRun(world.db, sent.messageId, room.agent.id);
  model.script(answer.reply({ reply: 'Two.', memory: { ...lines, content: 'second line' } }));
  const dying = await room.post(`@${room.agent.slug} continue`);
  await first.ended;
  expect(first.child.signalCode).toBe('SIGKILL');

  const second = forkWorker(env);
  const short = await closedRun(world.db, dying.messageId, room.agent.id);
  model.script(answer.reply('Three.'));
  const next = await room.post(`@${room.agent.slug} what is left?`);
  const fresh = await closedRun(world.db, next.messageId, room.agent.id);
  await second.kill();

  expect(before.ending).toBe('replied');
  expect(short).toMatchObject({ ending: 'partial', code: 'no_answer' });
  expect(short.steps.map((step) => [step.stepKey, step.state])).toEqual([
    ['reply', 'done'],
    ['memory', 'failed'],
  ]);
  expect(fresh.ending).toBe('replied');
  for (const run of [before, short, fresh]) await expectLedgerEqualsRoom(world.db, run.id);
  const shown = model.requests.at(-1)?.textOf('user') ?? '';
  for (const text of ['the task that stays open', 'One.', 'Two.', 'first line']) expect(shown).toContain(text);
  expect(shown).not.toContain('second line');
  const task = await world.db.task.findUniqueOrThrow({ where: { id: sent.taskId } });
  expect(task).toMatchObject({ state: 'in_progress', result: null });
});

describe('a worker is killed with a run at every crash point, and another worker starts', () => {
  let world: World;
  let survivor: WorkerProcess;
  const rooms = new Map<Case, { room: TestRoom; messageId: string }>();
  const marker = (each: Case): string => `case ${CASES.indexOf(each)} of ${CASES.length}.`;

  beforeAll(async () => {
    const opened = await openWorld();
    ({ world } = opened);
    const env = {
      ...opened.env,
      // Long limits, so that no attempt is given up before every run has reached its point on a busy machine.
      CRASH_TRANSACTION_SECONDS: '600',
      RUN_TIME_LIMIT_SECONDS: '600',
      RUN_STEP_TIMEOUT_SECONDS: '10',
      RUN_HEARTBEAT_SECONDS: '10',
      DATABASE_POOL_SIZE: '60',
    };
    const answers = new Map<string, ScriptedAnswer>();
    model.respond((request) => {
      const shown = request.textOf('user');
      for (const [text, scripted] of answers) if (shown.includes(text)) return scripted;
      throw new Error('the request belongs to no case');
    });
    for (const each of CASES) {
      const name = String(CASES.indexOf(each));
      const room = await openRoom(world, { name, modelUrl: model.url, onCrash: each.onCrash });
      await holdTaskSends(world, { point: each.point, agentId: room.agent.id });
      const posted = await room.sendTask(marker(each));
      const refused = answer.error(401, 'invalid_api_key');
      answers.set(
        marker(each),
        each.point.startsWith('closeRun:') ? refused : answer.reply(declareEveryKind(room, posted.taskId)),
      );
      rooms.set(each, { room, messageId: posted.messageId });
    }
    const points = [...rooms].map(([each, { room }]) => `${each.point}@${room.agent.id}`);
    const victim = forkCrashWorker(env, { points, action: 'stop' });
    await victim.ready;
    const cases = [...rooms].map(([{ point }, { room }]) => ({ point, agentId: room.agent.id }));
    await decideBeforeFault(world, cases);
    const stopped = CASES.length - countParked(CASES);
    await until('every run to reach its point', async () => victim.stops.length === stopped);
    // Counts the pool of the activities only: the loops also open short transactions.
    const open = await world.db.$queryRaw`
      SELECT count(*)::int AS count FROM pg_stat_activity
      WHERE datname = current_database() AND state = 'idle in transaction'
        AND application_name = 'durable-room-crash-worker'`;
    expect(open).toEqual([{ count: CASES.filter(({ point }) => point.endsWith('inside')).length }]);
    await victim.kill();
    survivor = forkWorker(opened.env);
    await survivor.ready;
    await decideAfterFault(world, cases);
  });

  test.each(CASES)(
    '$point, on_crash $onCrash: the run ends as $expected.ending, and the ledger equals the room',
    async (each) => {
      const { room, messageId } = rooms.get(each) as { room: TestRoom; messageId: string };
      const run = await closedRun(world.db, messageId, room.agent.id);
      const { expected } = each;
      expect(run).toMatchObject({ ending: expected.ending, fencedCount: 0 });
      const states = run.steps.map((step) => [step.stepKey, step.state]);
      expect(states).toEqual(expected.states.map((state, index) => [STEPS[index], state]));
      expect(run.requests.map((request) => request.outcome)).toEqual(expected.requests);
      const sent = model.requests.filter((request) => request.textOf('user').includes(marker(each)));
      expect(sent).toHaveLength(expected.sent);
      expect(await world.db.agentRunLock.count({ where: { agentId: room.agent.id } })).toBe(1);
      await expectLedgerEqualsRoom(world.db, run.id);
    },
  );

  test('after all runs have ended, no transaction is open and no lock is held', async () => {
    expect(await world.db.run.count({ where: { state: 'closed' } })).toBe(CASES.length);
    await waitForNothingHeld(world.db);
    await survivor.kill();
  });
});
