// Held actions over time, and the step that executes an approved action.

import { expireHeldActions } from '../../prisma/store/runs/held-actions/decide';
import { closeAsLost, closeRun } from '../../prisma/store/runs/fence';
import { recordVerdict } from '../../prisma/store/rooms/tasks';
import { RoomDraft } from '../../prisma/store/rooms/room-draft';
import { lockRoomForWrite } from '../../prisma/store/rooms/roster';
import { openWorldApi, type WorldApi } from '../support/world-api';
import { decide, heldOf, heldRun, holdStates, letExpire, SEND, setRights } from '../support/held-actions';
import { expectLedgerEqualsRoom } from '../support/ledger';
import { activitiesOf, holdTransaction, openRun, untilWaiting } from '../support/store-runs';
import { createWorld, type World } from '../support/world';

let world: World;
let api: WorldApi;

beforeAll(async () => {
  world = await createWorld({ modelUrl: 'http://127.0.0.1:9/v1' });
  api = await openWorldApi(world);
});
afterAll(async () => {
  await api.close();
  await world.close();
});

const HOLD_SEND = { task_send: 'hold' } as const;

const acting = (run: { execution: Parameters<typeof activitiesOf>[1] }) => activitiesOf(world, run.execution);

async function stepsOf(runId: string): Promise<Record<string, string>> {
  const steps = await world.db.runStep.findMany({ where: { runId } });
  return Object.fromEntries(steps.map((step) => [step.stepKey, step.state]));
}

describe('time', () => {
  test('a decision after the expiry gets 410, whether or not the reconciler has recorded the expiry', async () => {
    const run = await heldRun(world, HOLD_SEND);
    await letExpire(world, run.id, 'task_send:1');
    for (const decision of ['approve', 'decline'] as const) {
      expect(await decide(world, api.host.member, run.id, 'task_send:1', decision)).toMatchObject({
        status: 410,
        body: { code: 'gone' },
      });
    }
    expect(await holdStates(world, run.id)).toEqual({ 'task_send:1': 'held' });
    expect(await expireHeldActions(world.db, 100)).toBe(1);
    expect(await expireHeldActions(world.db, 100)).toBe(0);
    expect(await decide(world, api.host.member, run.id, 'task_send:1', 'approve')).toMatchObject({ status: 410 });
    expect(await holdStates(world, run.id)).toEqual({ 'task_send:1': 'expired' });
  });

  test('a decision that waited for a lock past the expiry gets 410: the clock is read at the write', async () => {
    const run = await heldRun(world, HOLD_SEND);
    const held = await holdTransaction(
      world.db,
      (tx) =>
        tx.$executeRaw`UPDATE held_actions SET opened_at = opened_at - interval '80 hours', expires_at = clock_timestamp()
                     WHERE run_id = ${run.id}`,
    );
    const deciding = decide(world, api.host.member, run.id, 'task_send:1', 'approve');
    await untilWaiting(world.db);
    await held.release();
    expect(await deciding).toMatchObject({ status: 410 });
  });

  test('a decision recorded in time remains, however late it is repeated', async () => {
    const run = await heldRun(world, HOLD_SEND);
    await decide(world, api.host.member, run.id, 'task_send:1', 'approve');
    await letExpire(world, run.id, 'task_send:1');
    await expireHeldActions(world.db, 100);
    expect(await decide(world, api.host.member, run.id, 'task_send:1', 'approve')).toMatchObject({
      status: 200,
      body: { state: 'approved' },
    });
  });

  test('a concurrent expiry and approval have one winner', async () => {
    for (let round = 0; round < 10; round += 1) {
      const run = await heldRun(world, HOLD_SEND);
      await letExpire(world, run.id, 'task_send:1');
      await world.db.$executeRaw`
        UPDATE held_actions SET expires_at = clock_timestamp() + make_interval(secs => ${round / 500}) WHERE run_id = ${run.id}`;
      const [answer] = await Promise.all([
        decide(world, api.host.member, run.id, 'task_send:1', 'approve'),
        expireHeldActions(world.db, 100),
      ]);
      await expireHeldActions(world.db, 100);
      const state = (await holdStates(world, run.id))['task_send:1'];
      expect([answer.status, state]).toEqual(answer.status === 200 ? [200, 'approved'] : [410, state]);
      if (answer.status === 410) expect(['held', 'expired']).toContain(state);
      await closeAsLost(world.db, run.id);
    }
  });

  test('reading an action decides nothing', async () => {
    const run = await heldRun(world, HOLD_SEND);
    const { id } = (await heldOf(world, run.id)).get('task_send:1')!;
    for (let n = 0; n < 3; n += 1) {
      expect(await api.host.member.get(`/v1/held-actions/${id}`)).toMatchObject({ body: { state: 'held' } });
    }
    expect(await decide(world, api.host.member, run.id, 'task_send:1', 'approve')).toMatchObject({ status: 200 });
  });

  test('an action is superseded, not expired, if older code without held actions closed its run', async () => {
    const run = await heldRun(world, HOLD_SEND);
    await world.db.$executeRaw`
      UPDATE runs SET state = 'closed', ending = 'lost', closed_at = clock_timestamp(), context = NULL WHERE id = ${run.id}`;
    expect(await decide(world, api.host.member, run.id, 'task_send:1', 'approve')).toMatchObject({
      status: 409,
      body: { state: 'superseded' },
    });
    await letExpire(world, run.id, 'task_send:1');
    await expireHeldActions(world.db, 100);
    expect(await holdStates(world, run.id)).toEqual({ 'task_send:1': 'superseded' });
  });
});

describe('an execution of a held step', () => {
  const sent = (runId: string) => world.db.task.count({ where: { runId } });
  const send = (run: Awaited<ReturnType<typeof heldRun>>) => acting(run).sendTask({ run: run.id, step: 'task_send:1' });

  test('writes nothing without an approval', async () => {
    const run = await heldRun(world, HOLD_SEND, { tasks_to_send: [SEND] });
    expect(await send(run)).toEqual({ state: 'held' });
    await decide(world, api.host.member, run.id, 'task_send:1', 'decline');
    expect(await send(run)).toEqual({ state: 'declined' });
    expect(await sent(run.id)).toBe(0);
    expect(await stepsOf(run.id)).toEqual({});
    expect(await closeRun(world.db, run.execution, run.id, { kind: 'ended' })).toBe('silent');
    expect(await stepsOf(run.id)).toEqual({ 'task_send:1': 'declined' });
  });

  test('executes the frozen action, not the current text of the reply', async () => {
    const run = await heldRun(world, { reply: 'hold' }, { reply: 'As it was shown.' });
    await decide(world, api.host.member, run.id, 'reply', 'approve');
    await world.db.$executeRaw`
      UPDATE runs SET reply = jsonb_set(reply, '{reply}', '"Something else."') WHERE id = ${run.id}`;
    expect(await acting(run).postReply({ run: run.id, step: 'reply' })).toEqual({ state: 'done', ending: 'replied' });
    const posted = await world.db.message.findMany({ where: { runId: run.id } });
    expect(posted.map((message) => message.text)).toEqual(['As it was shown.']);
  });

  test.each<[string, string | null]>([
    ['changed', '{"kind":"reply","text":"Another."}'],
    ['redacted', null],
  ])('does not execute a frozen action that was %s', async (_, action) => {
    const run = await heldRun(world, { reply: 'hold' }, { reply: 'As it was shown.' });
    await decide(world, api.host.member, run.id, 'reply', 'approve');
    await world.db.heldAction.updateMany({ where: { runId: run.id }, data: { action } });
    expect(await acting(run).postReply({ run: run.id, step: 'reply' })).toEqual({
      state: 'superseded',
      ending: 'not_allowed',
    });
    expect(await world.db.message.count({ where: { runId: run.id } })).toBe(0);
    expect(await holdStates(world, run.id)).toEqual({ reply: 'superseded' });
  });

  test('leaves a frozen action, which a redaction of the effect also erases', async () => {
    const run = await heldRun(world, { reply: 'hold' }, { reply: 'to be erased' });
    await decide(world, api.host.member, run.id, 'reply', 'approve');
    await acting(run).postReply({ run: run.id, step: 'reply' });
    const { id } = await world.db.message.findFirstOrThrow({ where: { runId: run.id } });
    expect((await api.host.admin.post(`/v1/rooms/${world.roomId}/redactions`, { subject: id })).status).toBeLessThan(
      300,
    );
    const action = (await heldOf(world, run.id)).get('reply')!;
    expect(action).toMatchObject({ action: null, state: 'executed' });
    const { body } = await api.host.member.get(`/v1/held-actions/${action.id}`);
    expect(body).toMatchObject({ action: null, hash: action.sha256, state: 'executed' });
  });

  test('acts once under concurrent attempts', async () => {
    const run = await heldRun(world, HOLD_SEND, { tasks_to_send: [SEND] });
    await decide(world, api.host.member, run.id, 'task_send:1', 'approve');
    const outcomes = await Promise.all(Array.from({ length: 5 }, () => send(run)));
    expect(outcomes).toEqual(Array.from({ length: 5 }, () => ({ state: 'done', ending: 'silent' })));
    expect(await sent(run.id)).toBe(1);
    expect(await holdStates(world, run.id)).toEqual({ 'task_send:1': 'executed' });
  });

  test.each<[string, string, () => Promise<unknown>, () => Promise<unknown>]>([
    [
      'the right was revoked',
      'right_revoked',
      () => setRights(world, { task_send: 'refuse' }),
      () => setRights(world, {}),
    ],
    [
      'the agent’s company left the room',
      'not_a_member',
      () =>
        world.db.$executeRaw`UPDATE room_members SET left_at = clock_timestamp() WHERE company_id = ${world.host.id}`,
      () => world.db.$executeRaw`UPDATE room_members SET left_at = NULL WHERE company_id = ${world.host.id}`,
    ],
    [
      'the recipient’s company left the room',
      'not_found',
      () =>
        world.db.$executeRaw`UPDATE room_members SET left_at = clock_timestamp() WHERE company_id = ${world.guest.id}`,
      () => world.db.$executeRaw`UPDATE room_members SET left_at = NULL WHERE company_id = ${world.guest.id}`,
    ],
    [
      'the room was closed',
      'room_closed',
      () => world.db.$executeRaw`UPDATE rooms SET closed_at = clock_timestamp() WHERE id = ${world.roomId}`,
      () => world.db.$executeRaw`UPDATE rooms SET closed_at = NULL WHERE id = ${world.roomId}`,
    ],
  ])('is superseded if meanwhile %s', async (_, code, change, undo) => {
    const run = await heldRun(world, HOLD_SEND, { reply: 'Sent.', tasks_to_send: [SEND] });
    await acting(run).postReply({ run: run.id, step: 'reply' });
    await decide(world, api.host.member, run.id, 'task_send:1', 'approve');
    await change();
    try {
      expect(await send(run)).toEqual({ state: 'superseded', ending: 'replied' });
    } finally {
      await undo();
    }
    expect(await sent(run.id)).toBe(0);
    expect(await holdStates(world, run.id)).toEqual({ 'task_send:1': 'superseded' });
    expect(await world.db.runStep.findFirst({ where: { runId: run.id, stepKey: 'task_send:1' } })).toMatchObject({
      code,
    });
    await expectLedgerEqualsRoom(world.db, run.id);
  });

  test('keeps its approval if the right is still hold or became go', async () => {
    for (const right of ['hold', 'go'] as const) {
      const run = await heldRun(world, HOLD_SEND, { tasks_to_send: [SEND] });
      await decide(world, api.host.member, run.id, 'task_send:1', 'approve');
      await setRights(world, { task_send: right });
      expect(await send(run)).toEqual({ state: 'done', ending: 'silent' });
    }
  });

  test('is superseded if its task was answered or judged meanwhile', async () => {
    for (const judged of [false, true]) {
      await setRights(world, { task_update: 'hold' });
      const opened = await openRun(world, { task: true });
      const card = await world.db.message.findUniqueOrThrow({ where: { id: opened.messageId } });
      const taskId = card.taskId as string;
      await closeAsLost(world.db, opened.id);
      const reply = { task_updates: [{ task: taskId, state: 'done', result: 'late' } as const] };
      const run = await heldRun(world, { task_update: 'hold' }, reply);
      await decide(world, api.host.member, run.id, 'task_update:1', 'approve');
      await setRights(world, {});
      const answer = { type: 'task_response', task: taskId, state: 'done', result: 'early' };
      expect(await api.host.agent.post(`/v1/rooms/${world.roomId}/events`, answer)).toMatchObject({ status: 201 });
      if (judged) {
        await world.db.transaction(async (tx) => {
          const room = await lockRoomForWrite(tx, world.roomId, world.host.id);
          const draft = new RoomDraft(world.roomId);
          await recordVerdict(tx, draft, room, { judge: world.host.person, taskId, verdict: 'accepted', note: null });
          await draft.append(tx);
        });
      }
      expect(await acting(run).updateTask({ run: run.id, step: 'task_update:1' })).toEqual({
        state: 'superseded',
        ending: 'silent',
      });
      expect(await world.db.task.findUniqueOrThrow({ where: { id: taskId } })).toMatchObject({ result: 'early' });
      expect(await holdStates(world, run.id)).toEqual({ 'task_update:1': 'superseded' });
    }
  });
});
