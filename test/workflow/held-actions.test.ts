// Runs that park, on a real Temporal: decided in any order, with both doors closed, expired, cancelled, lost.

import type { Client } from '@temporalio/client';
import fc from 'fast-check';
import type { HeldActionState } from '../../workflows/contract';
import { DECISION_SIGNAL, STATE_QUERY } from '../../workflows/messages';
import { connectDatabase } from '../../prisma/client';
import { reconcileOnce } from '../../worker/reconciler';
import { deliverSignals } from '../../worker/signal-dispatcher';
import { openWorldApi } from '../support/world-api';
import { decide, heldOf, holdStates, letExpire, FULL_REPLY, SEND, setRights } from '../support/held-actions';
import { expectLedgerEqualsRoom } from '../support/ledger';
import { openParkedWorld, type Parked, type ParkedWorld } from '../support/parked';
import { closedRun, startTestWorker, until } from '../support/runs';
import { answer } from '../support/scripted-model-server';
import type { World } from '../support/world';

let ground: ParkedWorld;
let world: World;

beforeAll(async () => {
  ground = await openParkedWorld();
  ({ world } = ground);
});
afterAll(() => ground.close());

const HOLD_SEND = { task_send: 'hold' } as const;
const stepsOf = (run: { steps: { stepKey: string; state: string }[] }) =>
  Object.fromEntries(run.steps.map((step) => [step.stepKey, step.state]));

test('a held task: the reply is posted, the run parks holding nothing, the yes sends it', async () => {
  const run = await ground.parkedRun(HOLD_SEND);
  const handle = ground.workflowOf(run.messageId);
  await until('the workflow to park', async () =>
    (await handle.query<{ at: string }>(STATE_QUERY)).at.startsWith('parked'),
  );
  const description = await handle.describe();
  expect(description.searchAttributes['RunState']).toEqual(['parked']);
  expect(description.raw.pendingActivities ?? []).toEqual([]);
  const { events } = await handle.fetchHistory();
  expect(events?.filter((event) => event.timerStartedEventAttributes)).toEqual([]);
  expect(await world.db.message.count({ where: { runId: run.id } })).toBe(1);

  expect((await ground.approve(run, 'task_send:1')).status).toBe(200);
  const closed = await closedRun(world.db, run.messageId, world.scribe.id);
  expect(closed.ending).toBe('replied');
  expect(stepsOf(closed)).toEqual({ reply: 'done', memory: 'done', 'task_send:1': 'done' });
  expect(await holdStates(world, run.id)).toEqual({ 'task_send:1': 'executed' });
  await expect(handle.result()).resolves.toMatchObject({ ending: 'replied' });
  await expectLedgerEqualsRoom(world.db, run.id);
  const { searchAttributes } = await until('visibility', async () => {
    const now = await handle.describe();
    return now.searchAttributes['RunState']?.[0] === 'closed' && now;
  });
  expect(searchAttributes['RunEnding']).toEqual(['replied']);
});

test('while the reply is held nothing is done; its yes posts it, and the rest follows', async () => {
  const run = await ground.parkedRun({ reply: 'hold', memory: 'go', task_send: 'go' });
  expect(await world.db.message.count({ where: { runId: run.id } })).toBe(0);
  expect(await world.db.memoryEntry.count({ where: { runId: run.id } })).toBe(0);
  await ground.approve(run, 'reply');
  const closed = await closedRun(world.db, run.messageId, world.scribe.id);
  expect(stepsOf(closed)).toEqual({ reply: 'done', memory: 'done', 'task_send:1': 'done' });
  await expectLedgerEqualsRoom(world.db, run.id);
});

test.each([
  ['declined', (run: Parked) => ground.decline(run, 'reply')],
  [
    'expired',
    async (run: Parked) => {
      await letExpire(world, run.id, 'reply');
      await reconcileOnce(ground.reconciler());
    },
  ],
] as const)('a reply that was %s ends the run so, and supersedes all after it', async (state, end) => {
  const run = await ground.parkedRun({ reply: 'hold', task_send: 'hold' });
  await ground.approve(run, 'task_send:1');
  await end(run);
  const closed = await closedRun(world.db, run.messageId, world.scribe.id);
  expect(closed.ending).toBe(state);
  expect(stepsOf(closed)).toEqual({ reply: state, memory: 'superseded', 'task_send:1': 'superseded' });
  expect(await holdStates(world, run.id)).toEqual({ reply: state, 'task_send:1': 'superseded' });
  expect(await world.db.message.count({ where: { runId: run.id } })).toBe(0);
  await expectLedgerEqualsRoom(world.db, run.id);
});

test('an action expires with nobody there: run, ledger and inbox say the same, and the other action is carried out', async () => {
  const run = await ground.parkedRun({ memory: 'hold', task_send: 'hold' });
  await letExpire(world, run.id, 'memory');
  await reconcileOnce(ground.reconciler());
  await until(
    'the expiry to be told',
    async () => (await world.db.runSignal.count({ where: { runId: run.id, deliveredAt: null } })) === 0,
  );
  expect((await world.db.run.findUniqueOrThrow({ where: { id: run.id } })).state).toBe('open');
  await ground.approve(run, 'task_send:1');
  const closed = await closedRun(world.db, run.messageId, world.scribe.id);
  expect(closed.ending).toBe('replied');
  expect(stepsOf(closed)).toEqual({ reply: 'done', memory: 'expired', 'task_send:1': 'done' });
  expect(await holdStates(world, run.id)).toEqual({ memory: 'expired', 'task_send:1': 'executed' });
  const { body } = await ground.api.host.member.get(`/v1/runs/${run.id}`);
  expect(body.held_actions.map((held: { state: string }) => held.state)).toEqual(['expired', 'executed']);
  await expectLedgerEqualsRoom(world.db, run.id);
});

test('several holds of a run decided in any order, at once or one by one: each as it was decided, each once', async () => {
  const kinds = ['reply', 'memory', 'task_send:1', 'task_send:2'];
  const reply = { ...FULL_REPLY, tasks_to_send: [SEND, { ...SEND, goal: 'And this.' }] };
  await fc.assert(
    fc.asyncProperty(
      fc.shuffledSubarray(kinds, { minLength: kinds.length }),
      fc.array(fc.constantFrom('approve' as const, 'decline' as const), { minLength: 4, maxLength: 4 }),
      fc.boolean(),
      async (order, answers, atOnce) => {
        const run = await ground.parkedRun({ reply: 'hold', memory: 'hold', task_send: 'hold' }, reply);
        const all = order.map((step, n) => [step, answers[n]!] as const);
        const tell = ([step, decision]: (typeof all)[number]) =>
          decide(world, ground.api.host.admin, run.id, step, decision);
        if (atOnce) await Promise.all(all.map(tell));
        else
          for (const each of all)
            if ((await world.db.run.findUnique({ where: { id: run.id } }))?.state === 'open') await tell(each);
        const closed = await closedRun(world.db, run.messageId, world.scribe.id);
        const said = new Map(all);
        const replied = said.get('reply') === 'approve';
        expect(closed.ending).toBe(replied ? 'replied' : 'declined');
        const states = await holdStates(world, run.id);
        for (const step of kinds) {
          const yes = said.get(step) === 'approve';
          if (replied || step === 'reply') {
            expect([step, states[step]]).toEqual([step, yes ? 'executed' : 'declined']);
            expect([step, stepsOf(closed)[step]]).toEqual([step, yes ? 'done' : 'declined']);
          } else {
            expect(['superseded', 'declined'] as HeldActionState[]).toContain(states[step]);
            expect(stepsOf(closed)[step]).toBe('superseded');
          }
        }
        await expectLedgerEqualsRoom(world.db, run.id);
      },
    ),
    { numRuns: 12 },
  );
});

test('a signal that nobody decided is no yes: nothing is done, and the run goes on waiting', async () => {
  const run = await ground.parkedRun(HOLD_SEND);
  const handle = ground.workflowOf(run.messageId);
  for (let n = 0; n < 3; n += 1) await handle.signal(DECISION_SIGNAL, { step: 'task_send:1', state: 'approved' });
  await handle.signal(DECISION_SIGNAL, { step: 'nothing', state: 'approved' });
  // The step that it was told of: handed out, and done without doing anything.
  await until('it to have looked and to wait again', async () => {
    const { events } = await handle.fetchHistory();
    const types = (events ?? []).flatMap(
      (event) => event.activityTaskScheduledEventAttributes?.activityType?.name ?? [],
    );
    return types.includes('sendTask') && (await handle.query<{ at: string }>(STATE_QUERY)).at.startsWith('parked');
  });
  expect(await world.db.task.count({ where: { runId: run.id } })).toBe(0);
  expect(await holdStates(world, run.id)).toEqual({ 'task_send:1': 'held' });
  await ground.approve(run, 'task_send:1');
  expect(stepsOf(await closedRun(world.db, run.messageId, world.scribe.id))).toMatchObject({ 'task_send:1': 'done' });
  await expectLedgerEqualsRoom(world.db, run.id);
});

test('a decision said again and again reaches the workflow once: its history does not grow with its callers', async () => {
  const run = await ground.parkedRun({ memory: 'hold', task_send: 'hold' });
  const action = (await heldOf(world, run.id)).get('memory')!;
  const body = { decision: 'decline', hash: action.sha256 };
  for (let batch = 0; batch < 10; batch += 1) {
    const answers = await Promise.all(
      Array.from({ length: 50 }, () => ground.api.host.member.post(`/v1/held-actions/${action.id}/decision`, body)),
    );
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200]));
  }
  for (let batch = 0; batch < 5; batch += 1) {
    const cancels = await Promise.all(
      Array.from({ length: 50 }, () => ground.api.host.member.post(`/v1/runs/${run.id}/cancel`)),
    );
    expect(new Set(cancels.map(({ status }) => status))).toEqual(new Set([200]));
  }
  const handle = ground.workflowOf(run.messageId);
  await expect(handle.result()).resolves.toMatchObject({ ending: 'cancelled' });
  const { events } = await handle.fetchHistory();
  expect(events?.filter((event) => event.workflowExecutionSignaledEventAttributes).length).toBeLessThanOrEqual(2);
  expect(events?.length).toBeLessThan(80);
  await expectLedgerEqualsRoom(world.db, run.id);
});

test('cancel and yes at the same time, many times: one outcome each, the action at most once, and the agent goes on', async () => {
  const outcomes = new Set<string>();
  for (let round = 0; round < 50; round += 1) {
    const run = await ground.parkedRun(HOLD_SEND, { tasks_to_send: [SEND] });
    const [yes, cancel] = await Promise.all([
      ground.approve(run, 'task_send:1'),
      ground.api.host.admin.post(`/v1/runs/${run.id}/cancel`),
    ]);
    const closed = await closedRun(world.db, run.messageId, world.scribe.id);
    const state = (await holdStates(world, run.id))['task_send:1'];
    const sent = await world.db.task.count({ where: { runId: run.id } });
    outcomes.add(`${yes.status} ${cancel.status} ${closed.ending} ${state} ${sent}`);
    await expectLedgerEqualsRoom(world.db, run.id);
  }
  const possible = [
    // The yes came first, and its run was cancelled before the step; or after it.
    '200 200 cancelled superseded 0',
    '200 409 silent executed 1',
    // The cancel came first.
    '409 200 cancelled superseded 0',
  ];
  for (const outcome of outcomes) expect(possible).toContain(outcome);
  await setRights(world, {});
  ground.model.script(answer.reply('Still here.'));
  const { messageId } = await world.post('@scribe and now?');
  expect((await closedRun(world.db, messageId, world.scribe.id)).ending).toBe('replied');
});

describe('with a door closed', () => {
  test('decided while no worker runs: carried out by the next one', async () => {
    await ground.withoutWorker(async (taskQueue) => {
      const first = await startTestWorker(world, { taskQueue, dispatch: false });
      await setRights(world, HOLD_SEND);
      ground.model.script(answer.reply(FULL_REPLY));
      const { messageId } = await world.post('@scribe before the night');
      await first.dispatch();
      const run = await ground.untilParked(messageId);
      await first.stop();
      expect((await ground.approve(run, 'task_send:1')).status).toBe(200);
      expect(await world.db.runSignal.findFirst({ where: { runId: run.id } })).toMatchObject({ deliveredAt: null });
      const second = await startTestWorker(world, { taskQueue });
      const closed = await closedRun(world.db, messageId, world.scribe.id);
      expect(stepsOf(closed)).toEqual({ reply: 'done', memory: 'done', 'task_send:1': 'done' });
      await expectLedgerEqualsRoom(world.db, run.id);
      await second.stop();
    });
  });

  test('Temporal down at the decision: it is recorded, stays in the outbox, and is told when Temporal is back', async () => {
    await ground.withoutWorker(async (taskQueue) => {
      const quiet = await startTestWorker(world, { taskQueue, dispatch: false });
      await setRights(world, HOLD_SEND);
      ground.model.script(answer.reply(FULL_REPLY));
      const { messageId } = await world.post('@scribe before the outage');
      await quiet.dispatch();
      const run = await ground.untilParked(messageId);
      expect((await ground.approve(run, 'task_send:1')).status).toBe(200);
      const down = { workflow: { getHandle: () => ({ signal: () => Promise.reject(new Error('unavailable')) }) } };
      const deps = { db: world.db, client: down as unknown as Client, onSignalFailed: () => undefined };
      expect(await deliverSignals(deps)).toMatchObject({ delivered: 0, failed: 1 });
      expect(await world.db.runSignal.findFirst({ where: { runId: run.id } })).toMatchObject({ deliveredAt: null });
      await world.db
        .$executeRaw`UPDATE run_signals SET due_at = clock_timestamp() - interval '1 second' WHERE run_id = ${run.id}`;
      await quiet.signal();
      expect((await closedRun(world.db, messageId, world.scribe.id)).ending).toBe('replied');
      await expectLedgerEqualsRoom(world.db, run.id);
      await quiet.stop();
    });
  });

  test('the API is gone between decision and delivery: its outbox row is delivered without it', async () => {
    const run = await ground.parkedRun(HOLD_SEND);
    const own = await connectDatabase(world.url, {
      poolSize: 2,
      applicationName: 'door',
      lockTimeoutMs: 3_000,
      statementTimeoutMs: 5_000,
      transactionTimeoutMs: 8_000,
    });
    const dying = await openWorldApi(world, own);
    expect((await decide(world, dying.host.member, run.id, 'task_send:1', 'approve')).status).toBe(200);
    await dying.close();
    await own.close();
    const closed = await closedRun(world.db, run.messageId, world.scribe.id);
    expect(stepsOf(closed)).toMatchObject({ 'task_send:1': 'done' });
  });

  test('a yes whose signal was lost is told again after a minute, and one that nobody can carry out is lost after a day', async () => {
    const run = await ground.parkedRun(HOLD_SEND);
    const other = await ground.parkedRun(HOLD_SEND);
    // As if Temporal had taken the signals and forgotten them.
    await setRights(world, HOLD_SEND);
    await world.db.$executeRaw`
      UPDATE runs SET due_at = clock_timestamp() + interval '1 hour' WHERE state = 'open'`;
    for (const each of [run, other]) {
      await world.db.$executeRaw`
        UPDATE held_actions SET state = 'approved', decision = 'approve', decided_by = 'key', decided_by_name = 'Ada',
                                decided_at = clock_timestamp() WHERE run_id = ${each.id}`;
      await world.db.$executeRaw`
        INSERT INTO run_signals (id, run_id, kind, held_action_id, delivered_at)
        SELECT 'sig_' || id, run_id, 'decision', id, clock_timestamp() FROM held_actions WHERE run_id = ${each.id}`;
      await world.db.$executeRaw`
        UPDATE runs SET decided_at = clock_timestamp() - interval '70 seconds' WHERE id = ${each.id}`;
    }
    await world.db.$executeRaw`UPDATE runs SET due_at = clock_timestamp() - interval '1 second' WHERE id = ${run.id}`;
    await reconcileOnce(ground.reconciler());
    expect((await closedRun(world.db, run.messageId, world.scribe.id)).ending).toBe('replied');

    await world.db.$executeRaw`
      UPDATE runs SET due_at = clock_timestamp() - interval '1 second', decided_at = clock_timestamp() - interval '25 hours' WHERE id = ${other.id}`;
    await reconcileOnce(ground.reconciler());
    expect((await closedRun(world.db, other.messageId, world.scribe.id)).ending).toBe('lost');
    expect((await ground.workflowOf(other.messageId).describe()).status.name).toBe('TERMINATED');
    expect(await holdStates(world, other.id)).toEqual({ 'task_send:1': 'superseded' });
    await expectLedgerEqualsRoom(world.db, other.id);
  });
});

test('a run cancelled in Temporal while parked ends cancelled, and its actions are superseded', async () => {
  const run = await ground.parkedRun({ reply: 'hold' }, { reply: 'Held.' });
  await ground.workflowOf(run.messageId).cancel();
  const closed = await closedRun(world.db, run.messageId, world.scribe.id);
  expect(closed).toMatchObject({ ending: 'cancelled', cancelledBy: 'temporal' });
  expect(await holdStates(world, run.id)).toEqual({ reply: 'superseded' });
  await expectLedgerEqualsRoom(world.db, run.id);
});

test('parked time does not count: a run parked for longer than its limit is carried out after its yes', async () => {
  await ground.withoutWorker(async (taskQueue) => {
    const short = await startTestWorker(world, { taskQueue, dispatch: false, timeouts: { limitMs: 8_000 } });
    await setRights(world, HOLD_SEND);
    ground.model.script(answer.reply(FULL_REPLY));
    const { messageId } = await world.post('@scribe slowly');
    await short.dispatch();
    const run = await ground.untilParked(messageId);
    // Longer than its whole limit, by Postgres' clock and by Temporal's.
    await until('time to pass', async () => {
      const [row] = await world.db.$queryRaw<{ past: boolean }[]>`
        SELECT clock_timestamp() > parked_at + interval '9 seconds' AS past FROM runs WHERE id = ${run.id}`;
      return row?.past;
    });
    await ground.approve(run, 'task_send:1');
    await short.signal();
    const closed = await closedRun(world.db, messageId, world.scribe.id);
    expect(closed.ending).toBe('replied');
    expect(Number(closed.parkedMs)).toBeGreaterThan(8_000);
    await short.stop();
  });
});
