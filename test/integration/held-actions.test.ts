// Held actions without Temporal: every state of the chart, who may decide, and what a step checks before it executes one.

import { randomBytes } from 'node:crypto';
import { expireHeldActions } from '../../prisma/store/runs/held-actions/decide';
import { newId } from '../../prisma/store/db/ids';
import { deliverWakes } from '../../prisma/store/runs/wakes';
import { closeAsLost, closeRun } from '../../prisma/store/runs/fence';
import { HELD_ACTION_STATES, type HeldActionState } from '../../workflows/contract';
import { openWorldApi, type WorldApi } from '../support/world-api';
import {
  decide,
  heldOf,
  heldRun,
  holdStates,
  letExpire,
  LINE,
  FULL_REPLY,
  SEND,
  setRights,
} from '../support/held-actions';
import { expectLedgerEqualsRoom } from '../support/ledger';
import { activitiesOf, eventsOf, repliedRun } from '../support/store-runs';
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
const HOLD_ALL = { reply: 'hold', memory: 'hold', task_update: 'hold', task_send: 'hold' } as const;

const acting = (run: { execution: Parameters<typeof activitiesOf>[1] }) => activitiesOf(world, run.execution);
const runOf = (id: string) => world.db.run.findUniqueOrThrow({ where: { id } });

async function stepsOf(runId: string): Promise<Record<string, string>> {
  const steps = await world.db.runStep.findMany({ where: { runId } });
  return Object.fromEntries(steps.map((step) => [step.stepKey, step.state]));
}

describe('the chart', () => {
  const reached = new Set<HeldActionState>();
  const TO: Readonly<Record<HeldActionState, () => Promise<string>>> = {
    held: async () => (await heldRun(world, HOLD_SEND)).id,
    approved: async () => {
      const run = await heldRun(world, HOLD_SEND);
      expect((await decide(world, api.host.member, run.id, 'task_send:1', 'approve')).status).toBe(200);
      return run.id;
    },
    declined: async () => {
      const run = await heldRun(world, HOLD_SEND);
      expect((await decide(world, api.host.admin, run.id, 'task_send:1', 'decline')).status).toBe(200);
      return run.id;
    },
    expired: async () => {
      const run = await heldRun(world, HOLD_SEND);
      await letExpire(world, run.id, 'task_send:1');
      await expireHeldActions(world.db, 100);
      return run.id;
    },
    superseded: async () => {
      const run = await heldRun(world, HOLD_SEND);
      await closeAsLost(world.db, run.id);
      return run.id;
    },
    executed: async () => {
      const run = await heldRun(world, HOLD_SEND, { tasks_to_send: [SEND] });
      await decide(world, api.host.member, run.id, 'task_send:1', 'approve');
      expect(await acting(run).sendTask({ run: run.id, step: 'task_send:1' })).toEqual({
        state: 'done',
        ending: 'silent',
      });
      return run.id;
    },
    failed: async () => {
      const run = await heldRun(world, HOLD_SEND, { tasks_to_send: [SEND] });
      await decide(world, api.host.member, run.id, 'task_send:1', 'approve');
      await closeRun(world.db, run.execution, run.id, { kind: 'failed', code: 'no_answer', step: 'task_send:1' });
      return run.id;
    },
  };

  test.each(HELD_ACTION_STATES)('the state %s is reached', async (state) => {
    const run = await TO[state]();
    expect(await holdStates(world, run)).toEqual({ 'task_send:1': state });
    reached.add(state);
    const { ending } = await runOf(run);
    const isOver = ending !== null;
    expect(isOver).toBe(['superseded', 'executed', 'failed'].includes(state));
    if (isOver) await expectLedgerEqualsRoom(world.db, run);
  });

  test('an approved action becomes superseded if its run ends before the action is executed', async () => {
    const run = await TO.approved();
    await closeAsLost(world.db, run);
    expect(await holdStates(world, run)).toEqual({ 'task_send:1': 'superseded' });
    expect(await stepsOf(run)).toEqual({ reply: 'not_reached', memory: 'not_reached', 'task_send:1': 'superseded' });
  });

  test.each(HELD_ACTION_STATES)('a decision on an action in the state %s is answered by the chart', async (state) => {
    const run = await TO[state]();
    const approve = await decide(world, api.host.admin, run, 'task_send:1', 'approve');
    const decline = await decide(world, api.host.admin, run, 'task_send:1', 'decline');
    const conflict = { status: 409, body: { code: 'conflict', state } };
    const recorded = { status: 200, body: { state } };
    const expected: Record<HeldActionState, [object, object]> = {
      held: [
        { status: 200, body: { state: 'approved' } },
        { status: 409, body: { code: 'conflict', state: 'approved' } },
      ],
      approved: [recorded, conflict],
      declined: [conflict, recorded],
      expired: [
        { status: 410, body: { code: 'gone', state } },
        { status: 410, body: { code: 'gone', state } },
      ],
      superseded: [conflict, conflict],
      executed: [recorded, conflict],
      failed: [recorded, conflict],
    };
    expect([approve, decline]).toMatchObject(expected[state]);
    expect(await world.db.runSignal.count({ where: { runId: run, kind: 'decision' } })).toBe(
      ['superseded'].includes(state) ? 0 : 1,
    );
  });

  test('every state was reached', () => {
    expect([...reached].sort()).toEqual([...HELD_ACTION_STATES].sort());
  });
});

describe('opening holds', () => {
  test('all holds of a run open together with frozen actions, and a second call returns the same holds', async () => {
    const run = await heldRun(world, HOLD_ALL);
    const first = await heldOf(world, run.id);
    expect([...first.keys()].sort()).toEqual(['memory', 'reply', 'task_send:1']);
    expect(JSON.parse(first.get('memory')?.action ?? '')).toEqual({ kind: 'memory', ...LINE });
    expect(first.get('reply')?.action).toBe('{"kind":"reply","text":"Done."}');
    for (const { openedAt, expiresAt } of first.values()) {
      expect(expiresAt.getTime() - openedAt.getTime()).toBeGreaterThan(71.9 * 3_600_000);
      expect(expiresAt.getTime() - openedAt.getTime()).toBeLessThan(72.1 * 3_600_000);
    }
    await decide(world, api.host.member, run.id, 'memory', 'decline');
    const again = await acting(run).openHeldActions({ run: run.id });
    expect(Object.fromEntries(again.map((hold) => [hold.key, hold.state]))).toEqual({
      reply: 'held',
      memory: 'declined',
      'task_send:1': 'held',
    });
    expect(await world.db.heldAction.count({ where: { runId: run.id } })).toBe(3);
  });

  test('another execution is fenced, and a closed run opens no hold', async () => {
    await setRights(world, HOLD_ALL);
    const run = await repliedRun(world, FULL_REPLY);
    const otherExecution = { ...run.execution, temporalRunId: randomBytes(8).toString('hex') };
    await expect(activitiesOf(world, otherExecution).openHeldActions({ run: run.id })).rejects.toMatchObject({
      message: 'Fenced: not_mine',
    });
    await closeAsLost(world.db, run.id);
    await expect(acting(run).openHeldActions({ run: run.id })).rejects.toMatchObject({ message: 'Fenced: closed' });
    expect(await world.db.heldAction.count({ where: { runId: run.id } })).toBe(0);
  });

  test('a run is parked exactly while it waits for a decision, and that time does not count toward its limit', async () => {
    const run = await heldRun(world, HOLD_SEND);
    expect((await runOf(run.id)).parkedAt).toBeNull();
    await acting(run).postReply({ run: run.id, step: 'reply' });
    expect((await runOf(run.id)).parkedAt).toBeNull();
    await acting(run).writeMemory({ run: run.id, step: 'memory' });
    expect((await runOf(run.id)).parkedAt).not.toBeNull();
    await world.db.$executeRaw`UPDATE runs SET parked_at = parked_at - interval '2 hours' WHERE id = ${run.id}`;
    await decide(world, api.host.member, run.id, 'task_send:1', 'approve');
    expect((await runOf(run.id)).decidedAt).not.toBeNull();
    await acting(run).sendTask({ run: run.id, step: 'task_send:1' });
    const { parkedAt, decidedAt, parkedMs, ending } = await runOf(run.id);
    expect({ parkedAt, decidedAt, ending }).toEqual({ parkedAt: null, decidedAt: null, ending: 'replied' });
    expect(Number(parkedMs)).toBeGreaterThanOrEqual(2 * 3_600_000);
    await expectLedgerEqualsRoom(world.db, run.id);
  });
});

test('a parked run uses no slot of its company: the next wake is delivered', async () => {
  for (const { id } of await world.db.run.findMany({ where: { state: 'open' } })) await closeAsLost(world.db, id);
  await deliverWakes(world.db, 100);
  const run = await heldRun(world, { reply: 'hold' }, { reply: 'Held.' });
  await world.db
    .$executeRaw`UPDATE wakes SET state = 'claimed', claimed_at = clock_timestamp() WHERE state = 'delivered'`;
  const { messageId } = await world.post('@scribe and this?');
  const delivered = await deliverWakes(world.db, 10, 1);
  expect(delivered.map((wake) => wake.messageId)).toEqual([messageId]);
  expect((await runOf(run.id)).parkedAt).not.toBeNull();
});

describe('the decider', () => {
  test('is a person of the agent’s company: its other keys get 403, and the person is recorded', async () => {
    const run = await heldRun(world, HOLD_SEND);
    for (const key of [api.host.agent, api.host.service, api.guest.agent, api.guest.service]) {
      expect(await decide(world, key, run.id, 'task_send:1', 'approve')).toMatchObject({ status: 403 });
    }
    expect(await holdStates(world, run.id)).toEqual({ 'task_send:1': 'held' });
    const { status, body } = await decide(world, api.host.member, run.id, 'task_send:1', 'approve');
    expect(status).toBe(200);
    expect(body).toMatchObject({
      state: 'approved',
      decision: 'approve',
      decided_by: { id: api.host.member.keyId, name: 'Mel' },
      action: { kind: 'task_send', ...SEND },
    });
  });

  test('is recorded once in the audit, even if the decision is repeated', async () => {
    const run = await heldRun(world, HOLD_SEND);
    const { id, sha256 } = (await heldOf(world, run.id)).get('task_send:1')!;
    for (const key of [api.host.member, api.host.admin]) await decide(world, key, run.id, 'task_send:1', 'decline');
    const { body } = await api.host.admin.get(`/v1/audit?subject=${id}`);
    expect(body.data).toMatchObject([
      {
        action: 'held_action.declined',
        actor: { id: api.host.member.keyId },
        room: world.roomId,
        details: { run: run.id, step: 'task_send:1', hash: sha256 },
      },
    ]);
  });

  test('is the signed-in person: a decider in the body is refused', async () => {
    const run = await heldRun(world, HOLD_SEND);
    const action = (await heldOf(world, run.id)).get('task_send:1')!;
    const body = { decision: 'approve', hash: action.sha256, decided_by: api.host.admin.keyId };
    expect(await api.host.member.post(`/v1/held-actions/${action.id}/decision`, body)).toMatchObject({ status: 400 });
    expect(await holdStates(world, run.id)).toEqual({ 'task_send:1': 'held' });
  });

  test('is never another company: its list is empty, and it gets the 404 of an unknown id', async () => {
    const run = await heldRun(world, HOLD_SEND);
    const { id, sha256 } = (await heldOf(world, run.id)).get('task_send:1')!;
    const unknown = newId('held');
    for (const key of [api.guest.admin, api.guest.member]) {
      const list = await key.get('/v1/held-actions');
      expect(list.body).toEqual({ data: [], next_cursor: null });
      const without = (answer: { status: number; body: object }) => ({ ...answer.body, request_id: null });
      const reads = await Promise.all([id, unknown].map((each) => key.get(`/v1/held-actions/${each}`)));
      expect(reads.map(({ status }) => status)).toEqual([404, 404]);
      expect(without(reads[0]!)).toEqual(without(reads[1]!));
      for (const decision of ['approve', 'decline']) {
        const tries = await Promise.all(
          [id, unknown].map((each) => key.post(`/v1/held-actions/${each}/decision`, { decision, hash: sha256 })),
        );
        expect(tries.map(({ status }) => status)).toEqual([404, 404]);
        expect(without(tries[0]!)).toEqual(without(tries[1]!));
      }
    }
    expect(await holdStates(world, run.id)).toEqual({ 'task_send:1': 'held' });
    const events = JSON.stringify(await eventsOf(world), (_, value: unknown) =>
      typeof value === 'bigint' ? 0 : value,
    );
    expect(events).not.toContain(id);
  });

  test('must send the hash of the action: another hash gets 409 and decides nothing', async () => {
    const run = await heldRun(world, { memory: 'hold', task_send: 'hold' });
    const held = await heldOf(world, run.id);
    const path = `/v1/held-actions/${held.get('memory')!.id}/decision`;
    const wrong = { decision: 'approve', hash: held.get('task_send:1')!.sha256 };
    expect(await api.host.member.post(path, wrong)).toMatchObject({ status: 409, body: { state: 'held' } });
    for (const hash of ['', 'ABC', 7]) {
      expect(await api.host.member.post(path, { ...wrong, hash })).toMatchObject({
        status: 400,
        body: { pointer: '/hash' },
      });
    }
    expect(await api.host.member.post(path, { hash: wrong.hash, decision: 'yes' })).toMatchObject({
      status: 400,
      body: { pointer: '/decision' },
    });
    expect(await holdStates(world, run.id)).toEqual({ memory: 'held', 'task_send:1': 'held' });
  });

  test('is one of two people in twenty concurrent requests: one decision is returned to all, with one signal', async () => {
    const run = await heldRun(world, HOLD_SEND);
    const answers = await Promise.all(
      Array.from({ length: 20 }, (_, n) =>
        decide(
          world,
          n % 4 < 2 ? api.host.admin : api.host.member,
          run.id,
          'task_send:1',
          n % 2 ? 'approve' : 'decline',
        ),
      ),
    );
    const state = (await holdStates(world, run.id))['task_send:1'];
    expect(['approved', 'declined']).toContain(state);
    expect(answers.filter(({ status }) => status === 200)).toHaveLength(10);
    expect(answers.filter(({ status }) => status === 409)).toHaveLength(10);
    for (const { body } of answers) expect(body.state).toBe(state);
    expect(await world.db.runSignal.count({ where: { runId: run.id } })).toBe(1);
  });
});

describe('the inbox', () => {
  test('lists the actions of a company in all rooms, with filters and pages; an agent’s key sees its own', async () => {
    const run = await heldRun(world, { memory: 'hold', task_send: 'hold' });
    await decide(world, api.host.member, run.id, 'memory', 'decline');
    const get = (query: string, by = api.host.service) => by.get(`/v1/held-actions?${query}`);
    const of = async (query: string, by = api.host.service) =>
      ((await get(query, by)).body.data as { run: string; step: string }[])
        .filter((each) => each.run === run.id)
        .map((each) => each.step);
    expect(await of('order=desc')).toEqual(['task_send:1', 'memory']);
    expect(await of(`order=desc&state=declined&room=${world.roomId}`)).toEqual(['memory']);
    expect(await of(`order=desc&state=held&agent=${world.scribe.id}`)).toEqual(['task_send:1']);
    expect(await of(`order=desc&agent=${world.scout.id}`)).toEqual([]);
    expect(await of('order=desc', api.host.agent)).toEqual(['task_send:1', 'memory']);
    expect(await of('order=desc&until=2020-01-01T00:00:00Z')).toEqual([]);
    const first = await get('order=desc&limit=1');
    expect(first.body.data).toHaveLength(1);
    const second = await get(`order=desc&limit=1&cursor=${first.body.next_cursor}`);
    expect([first.body.data[0].step, second.body.data[0].step]).toEqual(['task_send:1', 'memory']);
    expect(await get('state=open')).toMatchObject({ status: 400, body: { parameter: 'state' } });
    expect(await get('limit=201')).toMatchObject({ status: 400 });
  });

  test('shows a run’s held actions to its own company only', async () => {
    const run = await heldRun(world, HOLD_SEND);
    const { id } = (await heldOf(world, run.id)).get('task_send:1')!;
    const own = await api.host.member.get(`/v1/runs/${run.id}`);
    expect(own.body.held_actions).toEqual([{ id, step: 'task_send:1', state: 'held' }]);
    const other = await api.guest.member.get(`/v1/runs/${run.id}`);
    expect(other.status).toBe(200);
    expect(other.text).not.toMatch(/held|parked/);
  });
});
