// Parked runs on a real Temporal: decided in any order, during an outage, expired, cancelled and lost.

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

test('a held task: the reply is posted, the run parks without a timer or an activity, and the approval sends the task', async () => {
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

test('while the reply is held, no step acts; its approval posts it, and the other steps follow', async () => {
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
] as const)('a reply that was %s ends the run with that ending and supersedes all later steps', async (state, end) => {
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

test('an action expires without a person: run, ledger and inbox agree, and the other action is executed', async () => {
  const run = await ground.parkedRun({ memory: 'hold', task_send: 'hold' });
  await letExpire(world, run.id, 'memory');
  await reconcileOnce(ground.reconciler());
  await until(
    'the signal of the expiry to be delivered',
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

test('several held actions of a run, decided in any order, at once or one by one: each decision applies exactly once', async () => {
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
        const send = ([step, decision]: (typeof all)[number]) =>
          decide(world, ground.api.host.admin, run.id, step, decision);
        if (atOnce) await Promise.all(all.map(send));
        else
          for (const each of all)
            if ((await world.db.run.findUnique({ where: { id: run.id } }))?.state === 'open') await send(each);
        const closed = await closedRun(world.db, run.messageId, world.scribe.id);
        const decisions = new Map(all);
        const replied = decisions.get('reply') === 'approve';
        expect(closed.ending).toBe(replied ? 'replied' : 'declined');
        const states = await holdStates(world, run.id);
        for (const step of kinds) {
          const approved = decisions.get(step) === 'approve';
          if (replied || step === 'reply') {
            expect([step, states[step]]).toEqual([step, approved ? 'executed' : 'declined']);
            expect([step, stepsOf(closed)[step]]).toEqual([step, approved ? 'done' : 'declined']);
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

test('a signal without a decision is no approval: no step acts, and the run continues to wait', async () => {
  const run = await ground.parkedRun(HOLD_SEND);
  const handle = ground.workflowOf(run.messageId);
  for (let n = 0; n < 3; n += 1) await handle.signal(DECISION_SIGNAL, { step: 'task_send:1', state: 'approved' });
  await handle.signal(DECISION_SIGNAL, { step: 'nothing', state: 'approved' });
  // The activity of the signalled step runs and has no effect.
  await until('the run to check the step and to wait again', async () => {
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

test('a repeated decision reaches the workflow once: the history does not grow with the number of requests', async () => {
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

test('a cancel and an approval at the same time, 50 times: one outcome each, at most one effect, and the agent continues', async () => {
  const outcomes = new Set<string>();
  for (let round = 0; round < 50; round += 1) {
    const run = await ground.parkedRun(HOLD_SEND, { tasks_to_send: [SEND] });
    const [approval, cancel] = await Promise.all([
      ground.approve(run, 'task_send:1'),
      ground.api.host.admin.post(`/v1/runs/${run.id}/cancel`),
    ]);
    const closed = await closedRun(world.db, run.messageId, world.scribe.id);
    const state = (await holdStates(world, run.id))['task_send:1'];
    const sent = await world.db.task.count({ where: { runId: run.id } });
    outcomes.add(`${approval.status} ${cancel.status} ${closed.ending} ${state} ${sent}`);
    await expectLedgerEqualsRoom(world.db, run.id);
  }
  const possible = [
    // The approval came first, and its run was cancelled before the step, or not cancelled.
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

describe('during an outage', () => {
  test('an action decided without a running worker is executed by the next worker', async () => {
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

  test('without Temporal, a decision is recorded, stays in the outbox, and is signalled when Temporal is back', async () => {
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

  test('if the API stops between decision and delivery, its outbox row is delivered without it', async () => {
    const run = await ground.parkedRun(HOLD_SEND);
    const own = await connectDatabase(world.url, {
      poolSize: 2,
      applicationName: 'api',
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

  test('an approval whose signal was lost is signalled again after a minute; a run that no worker executes is lost after a day', async () => {
    const run = await ground.parkedRun(HOLD_SEND);
    const other = await ground.parkedRun(HOLD_SEND);
    // The state after Temporal accepted the signals and lost them.
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

test('parked time does not count: a run that was parked for longer than its limit continues after its approval', async () => {
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
