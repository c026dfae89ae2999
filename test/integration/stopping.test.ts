// Stopping runs and asking anew through the door: cancel with no worker running, ask-again, a room paused whole,
// and an agent in all its rooms.

import { claimMessage } from '../../prisma/store/runs/claims';
import { newId } from '../../prisma/store/db/ids';
import { closeAsLost, closeRun } from '../../prisma/store/runs/fence';
import { deliverWakes } from '../../prisma/store/runs/wakes';
import { openWorldApi, type WorldApi } from '../support/world-api';
import { heldRun, holdStates, SEND, setRights } from '../support/held-actions';
import { expectLedgerEqualsRoom } from '../support/ledger';
import {
  activitiesOf,
  deliveredWake,
  eventsOf,
  holdTransaction,
  LIMITS,
  newExecution,
  openRun,
  repliedRun,
  untilWaiting,
} from '../support/store-runs';
import { createWorld, type World } from '../support/world';

let world: World;
let door: WorldApi;

beforeAll(async () => {
  world = await createWorld({ modelUrl: 'http://127.0.0.1:9/v1' });
  door = await openWorldApi(world);
});
afterAll(async () => {
  await door.close();
  await world.close();
});

describe('cancel', () => {
  test('closes the run at once with no worker running, and leaves a signal for its workflow', async () => {
    const run = await repliedRun(world, { reply: 'never said' });
    const { status, body } = await door.host.member.post(`/v1/runs/${run.id}/cancel`, { reason: 'wrong room' });
    expect(status).toBe(200);
    expect(body).toMatchObject({
      state: 'closed',
      ending: 'cancelled',
      cancelled: { by: door.host.member.keyId, why: 'wrong room' },
      steps: [{ key: 'reply', state: 'not_reached' }],
    });
    expect(await world.db.runSignal.findMany({ where: { runId: run.id } })).toMatchObject([{ kind: 'recheck' }]);
    const acting = activitiesOf(world, run.execution);
    expect(await acting.postReply({ run: run.id, step: 'reply' })).toEqual({
      state: 'not_reached',
      ending: 'cancelled',
    });
    expect(await acting.closeRun({ run: run.id, reason: { kind: 'ended' } })).toBe('cancelled');
    await expectLedgerEqualsRoom(world.db, run.id);
  });

  test('a parked run: its actions are superseded with it, and the room says once that it ended', async () => {
    const run = await heldRun(world, { reply: 'hold', task_send: 'hold' });
    expect((await door.host.admin.post(`/v1/runs/${run.id}/cancel`)).body).toMatchObject({
      ending: 'cancelled',
      cancelled: { why: 'no reason given' },
    });
    expect(await holdStates(world, run.id)).toEqual({ reply: 'superseded', 'task_send:1': 'superseded' });
    await expectLedgerEqualsRoom(world.db, run.id);
  });

  test('again it is the same answer; a run that ended otherwise is 409 with its ending', async () => {
    const run = await openRun(world);
    const first = await door.host.member.post(`/v1/runs/${run.id}/cancel`, { reason: 'first' });
    const second = await door.host.admin.post(`/v1/runs/${run.id}/cancel`, { reason: 'second' });
    expect(second).toMatchObject({ status: 200, body: first.body });
    expect(await world.db.runSignal.count({ where: { runId: run.id } })).toBe(1);
    const lost = await openRun(world);
    await closeAsLost(world.db, lost.id);
    expect(await door.host.member.post(`/v1/runs/${lost.id}/cancel`)).toMatchObject({
      status: 409,
      body: { code: 'conflict', state: 'lost' },
    });
  });

  test('only people of its own company: services and agents get 403, the others in the room too, strangers 404', async () => {
    const run = await openRun(world);
    for (const key of [door.host.service, door.host.agent, door.guest.admin]) {
      expect(await key.post(`/v1/runs/${run.id}/cancel`)).toMatchObject({ status: 403 });
    }
    expect(await door.host.member.post(`/v1/runs/${newId('run')}/cancel`)).toMatchObject({ status: 404 });
    await world.db
      .$executeRaw`UPDATE room_members SET left_at = clock_timestamp() WHERE company_id = ${world.guest.id}`;
    expect(await door.guest.admin.post(`/v1/runs/${run.id}/cancel`)).toMatchObject({ status: 404 });
    await world.db.$executeRaw`UPDATE room_members SET left_at = NULL WHERE company_id = ${world.guest.id}`;
    expect((await world.db.run.findUniqueOrThrow({ where: { id: run.id } })).state).toBe('open');
  });

  test('who and why are shown to the run’s own company only', async () => {
    const run = await openRun(world);
    await door.host.member.post(`/v1/runs/${run.id}/cancel`, { reason: 'a secret reason' });
    for (const path of [`/v1/runs/${run.id}`, '/v1/runs', `/v1/rooms/${world.roomId}/events?limit=200`]) {
      expect((await door.guest.admin.get(path)).text).not.toContain('a secret reason');
    }
    expect((await door.guest.admin.get(`/v1/runs/${run.id}`)).body).toMatchObject({ ending: 'cancelled' });
  });

  test.each<[string, object]>([
    ['an empty reason', { reason: '' }],
    ['a long one', { reason: 'x'.repeat(501) }],
    ['one that is no text', { reason: 7 }],
    ['an unknown field', { why: 'x' }],
  ])('refuses %s', async (_, body) => {
    expect(await door.host.member.post(`/v1/runs/${newId('run')}/cancel`, body)).toMatchObject({ status: 400 });
  });

  test('a step under way is waited for: what it did stays, and the run is cancelled after it or not at all', async () => {
    await setRights(world, {});
    const run = await repliedRun(world, {
      reply: 'said',
      memory: { category: 'fact', content: 'x', tags: [], visibility: 'shared' },
    });
    const held = await holdTransaction(
      world.db,
      (tx) => tx.$queryRaw`SELECT 1 FROM runs WHERE id = ${run.id} FOR UPDATE`,
    );
    const posting = activitiesOf(world, run.execution).postReply({ run: run.id, step: 'reply' });
    await untilWaiting(world.db, 1);
    const cancelling = door.host.member.post(`/v1/runs/${run.id}/cancel`);
    await untilWaiting(world.db, 2);
    await held.release();
    const [, cancelled] = await Promise.all([posting, cancelling]);
    expect(cancelled.body).toMatchObject({ ending: 'cancelled', steps: [{ state: 'done' }, { state: 'not_reached' }] });
    await expectLedgerEqualsRoom(world.db, run.id);
  });
});

describe('ask again', () => {
  test('a run that ended short: a new message of the caller’s own, with the old text, for that agent alone', async () => {
    const posted = await world.post('@scribe and @scout, please', { author: world.guest.person });
    await deliverWakes(world.db, 100);
    const wake = { agentId: world.scribe.id, messageId: posted.messageId };
    const claim = await claimMessage(world.db, newExecution(wake.agentId, wake.messageId), wake, LIMITS);
    if (claim.kind !== 'granted') throw new Error('not granted');
    expect(await door.host.service.post(`/v1/runs/${claim.runId}/ask-again`)).toMatchObject({ status: 409 });
    await closeAsLost(world.db, claim.runId);
    const { status, body } = await door.host.service.post(`/v1/runs/${claim.runId}/ask-again`);
    expect(status).toBe(201);
    expect(body).toMatchObject({
      refers_to: posted.messageId,
      wakes: [{ agent: world.scribe.id, slug: 'scribe', status: 'pending', reason: null }],
    });
    expect(body.wakes).toHaveLength(1);
    const message = await world.db.message.findUniqueOrThrow({ where: { id: body.id } });
    expect(message).toMatchObject({
      text: '@scribe and @scout, please',
      authorKind: 'service',
      companyId: world.host.id,
      refersTo: posted.messageId,
      hop: 0,
      runId: null,
    });
    const old = await world.db.run.findUniqueOrThrow({ where: { id: claim.runId } });
    expect(old).toMatchObject({ ending: 'lost' });
  });

  test('a task: a new task with the same goal, whose sender is the caller', async () => {
    const sent = await world.sendTask('scribe', 'count them');
    await deliverWakes(world.db, 100);
    const wake = { agentId: world.scribe.id, messageId: sent.messageId };
    const execution = newExecution(wake.agentId, wake.messageId);
    const claim = await claimMessage(world.db, execution, wake, LIMITS);
    if (claim.kind !== 'granted') throw new Error('not granted');
    await closeRun(world.db, execution, claim.runId, { kind: 'timed_out' });
    const wakeId = sent.wakes[0]!.wakeId;
    const { body, status } = await door.guest.member.post(`/v1/wakes/${wakeId}/ask-again`);
    expect(status).toBe(201);
    const task = await world.db.task.findUniqueOrThrow({ where: { id: body.id } });
    expect(task).toMatchObject({
      goal: 'count them',
      senderKind: 'person',
      senderId: door.guest.member.keyId,
      recipientAgentId: world.scribe.id,
      state: 'pending',
    });
    expect(await world.db.message.findUniqueOrThrow({ where: { id: task.cardMessageId } })).toMatchObject({
      refersTo: sent.messageId,
      kind: 'task_card',
    });
  });

  test('a suppressed wake: the new one meets its gates anew', async () => {
    await world.db.agent.update({ where: { id: world.scribe.id }, data: { pausedAt: new Date() } });
    const posted = await world.post('@scribe while you sleep');
    const path = `/v1/wakes/${posted.wakes[0]!.wakeId}/ask-again`;
    expect((await door.host.member.post(path)).body.wakes).toMatchObject([{ status: 'suppressed', reason: 'paused' }]);
    expect((await door.guest.member.post(path)).body.wakes).toMatchObject([{ reason: 'unavailable' }]);
    await world.db.agent.update({ where: { id: world.scribe.id }, data: { pausedAt: null } });
    expect((await door.host.member.post(path)).body.wakes).toMatchObject([{ status: 'pending' }]);
  });

  test('not while it is to run, not of a redacted message, not of an agent that is gone; strangers find nothing', async () => {
    const pending = await world.post('@scribe now');
    expect(await door.host.member.post(`/v1/wakes/${pending.wakes[0]!.wakeId}/ask-again`)).toMatchObject({
      status: 409,
      body: { code: 'conflict', state: 'pending' },
    });
    const run = await openRun(world);
    await closeAsLost(world.db, run.id);
    const path = `/v1/runs/${run.id}/ask-again`;
    await world.db.$executeRaw`UPDATE messages SET text = '' WHERE id = ${run.messageId}`;
    expect(await door.host.member.post(path)).toMatchObject({ status: 409 });
    await world.db.$executeRaw`UPDATE messages SET text = 'x' WHERE id = ${run.messageId}`;
    await world.db
      .$executeRaw`UPDATE room_agents SET removed_at = clock_timestamp() WHERE agent_id = ${world.scribe.id}`;
    expect(await door.host.member.post(path)).toMatchObject({ status: 409 });
    await world.db.$executeRaw`UPDATE room_agents SET removed_at = NULL WHERE agent_id = ${world.scribe.id}`;
    expect(await door.host.member.post(`/v1/runs/${newId('run')}/ask-again`)).toMatchObject({ status: 404 });
    await world.db
      .$executeRaw`UPDATE room_members SET left_at = clock_timestamp() WHERE company_id = ${world.guest.id}`;
    expect(await door.guest.member.post(path)).toMatchObject({ status: 404 });
    await world.db.$executeRaw`UPDATE room_members SET left_at = NULL WHERE company_id = ${world.guest.id}`;
    expect(await door.host.member.post(path)).toMatchObject({ status: 201 });
  });

  test('an agent’s key asks as that agent, one hop deeper, and only where its right to is go', async () => {
    await setRights(world, {});
    const run = await openRun(world, { hop: 3 });
    await closeAsLost(world.db, run.id);
    const posted = await world.post('@scout look at this', { hop: 4 });
    const path = `/v1/runs/${run.id}/ask-again`;
    const { body } = await door.guest.agent.post(path);
    expect(await world.db.message.findUniqueOrThrow({ where: { id: body.id } })).toMatchObject({
      authorId: world.scout.id,
      hop: 5,
    });
    expect(posted.messageId).toBeDefined();
    await setRights(world, { reply: 'hold' });
    expect(await door.host.agent.post(path)).toMatchObject({ status: 403 });
    await setRights(world, {});
    // Its own message does not wake an agent.
    expect((await door.host.agent.post(path)).body.wakes).toEqual([]);
  });
});

describe('a room paused whole', () => {
  const path = () => `/v1/rooms/${world.roomId}`;
  afterEach(async () => {
    await door.host.member.post(`${path()}/resume`);
  });

  test('no run begins any more; what is in flight is said, and goes on; resumed, runs begin again', async () => {
    await setRights(world, {});
    for (const { id } of await world.db.run.findMany({ where: { state: 'open' } })) await closeAsLost(world.db, id);
    const inFlight = await repliedRun(world, { reply: 'goes on' });
    const delivered = await deliveredWake(world);
    const pending = await world.post('@scribe in the queue');
    // Of earlier tests' wakes none comes due again.
    await world.db.$executeRaw`
      UPDATE wakes SET started_at = now()
      WHERE state = 'delivered' AND started_at IS NULL AND message_id <> ${delivered.messageId}`;

    const { status, body } = await door.host.member.post(`${path()}/pause`);
    expect(status).toBe(200);
    expect(body.paused_at).not.toBeNull();
    expect(body.in_flight).toEqual([{ run: inFlight.id, agent: world.scribe.id, message: inFlight.messageId }]);

    expect(await deliverWakes(world.db, 10)).toEqual([]);
    expect(await world.db.wake.findFirst({ where: { messageId: pending.messageId } })).toMatchObject({
      state: 'suppressed',
      reason: 'paused',
    });
    const execution = newExecution(delivered.agentId, delivered.messageId);
    expect(await claimMessage(world.db, execution, delivered, LIMITS)).toMatchObject({
      kind: 'closed',
      ending: 'cancelled',
    });
    expect((await world.post('@scribe while paused')).wakes).toMatchObject([
      { status: 'suppressed', reason: 'paused' },
    ]);
    expect(await activitiesOf(world, inFlight.execution).postReply({ run: inFlight.id, step: 'reply' })).toEqual({
      state: 'done',
      ending: 'replied',
    });

    const resumed = await door.host.admin.post(`${path()}/resume`);
    expect(resumed).toMatchObject({ status: 200, body: { paused_at: null } });
    expect((await world.post('@scribe again')).wakes).toMatchObject([{ status: 'pending' }]);
  });

  test('paused and resumed twice is paused and resumed once; the room is told by whom', async () => {
    const before = (await eventsOf(world, 'room_paused', 'room_resumed')).length;
    for (const verb of ['pause', 'pause', 'resume', 'resume']) {
      expect(await door.host.member.post(`${path()}/${verb}`)).toMatchObject({ status: 200 });
    }
    const events = (await eventsOf(world, 'room_paused', 'room_resumed')).slice(before);
    expect(events).toMatchObject([
      { type: 'room_paused', authorId: door.host.member.keyId },
      { type: 'room_resumed', authorId: door.host.member.keyId },
    ]);
  });

  test('only people of the host: guests, services and agents get 403, strangers 404', async () => {
    for (const verb of ['pause', 'resume']) {
      for (const key of [door.guest.admin, door.host.service, door.host.agent]) {
        expect(await key.post(`${path()}/${verb}`)).toMatchObject({ status: 403 });
      }
      expect(await door.host.member.post(`/v1/rooms/${newId('room')}/${verb}`)).toMatchObject({ status: 404 });
    }
  });

  test('a claim under way is waited for: its run is among those in flight', async () => {
    const wake = await deliveredWake(world);
    // Stands where the claim reads, with the membership already locked for sharing.
    const held = await holdTransaction(
      world.db,
      (tx) => tx.$queryRaw`SELECT 1 FROM wakes WHERE message_id = ${wake.messageId} FOR UPDATE`,
    );
    const claiming = claimMessage(world.db, newExecution(wake.agentId, wake.messageId), wake, LIMITS);
    await untilWaiting(world.db, 1);
    const pausing = door.host.member.post(`${path()}/pause`);
    await untilWaiting(world.db, 2);
    await held.release();
    const [claim, { body }] = await Promise.all([claiming, pausing]);
    if (claim.kind !== 'granted') throw new Error(`not granted: ${claim.kind}`);
    expect(body.in_flight.map((each: { run: string }) => each.run)).toContain(claim.runId);
  });
});

describe('an agent paused in all its rooms', () => {
  const path = () => `/v1/agents/${world.scribe.id}`;
  afterEach(async () => {
    await door.host.member.post(`${path()}/resume`);
  });

  test('no run of it begins any more; what is in flight is said, and goes on', async () => {
    await setRights(world, {});
    for (const { id } of await world.db.run.findMany({ where: { state: 'open' } })) await closeAsLost(world.db, id);
    const inFlight = await repliedRun(world, { reply: 'goes on' });
    const delivered = await deliveredWake(world);
    const asked = await world.post('@scout meanwhile');
    await deliverWakes(world.db, 100);
    const others = { agentId: world.scout.id, messageId: asked.messageId };
    const claim = await claimMessage(world.db, newExecution(others.agentId, others.messageId), others, LIMITS);
    expect(claim).toMatchObject({ kind: 'granted' });

    const { status, body } = await door.host.member.post(`${path()}/pause`);
    expect(status).toBe(200);
    expect(body.in_flight).toEqual([{ run: inFlight.id, room: world.roomId, message: inFlight.messageId }]);
    expect(await door.host.admin.post(`${path()}/pause`)).toMatchObject({
      status: 200,
      body: { paused_at: body.paused_at, in_flight: body.in_flight },
    });

    const execution = newExecution(delivered.agentId, delivered.messageId);
    expect(await claimMessage(world.db, execution, delivered, LIMITS)).toMatchObject({
      kind: 'closed',
      ending: 'cancelled',
    });
    expect(await activitiesOf(world, inFlight.execution).postReply({ run: inFlight.id, step: 'reply' })).toEqual({
      state: 'done',
      ending: 'replied',
    });
    expect(await door.host.member.post(`${path()}/resume`)).toMatchObject({ status: 200, body: { paused_at: null } });
    expect((await world.post('@scribe again')).wakes).toMatchObject([{ status: 'pending' }]);
  });

  test('paused and resumed twice is told of once', async () => {
    const told = () => world.db.auditEntry.findMany({ where: { subjectId: world.scribe.id }, orderBy: { id: 'asc' } });
    const before = (await told()).length;
    for (const verb of ['pause', 'pause', 'resume', 'resume']) {
      expect(await door.host.member.post(`${path()}/${verb}`)).toMatchObject({ status: 200 });
    }
    expect((await told()).slice(before)).toMatchObject([{ action: 'agent.paused' }, { action: 'agent.resumed' }]);
  });

  test('a claim under way is waited for: its run is among those in flight', async () => {
    const wake = await deliveredWake(world);
    // Stands where the claim reads, with the agent's place on the roster already locked for sharing.
    const held = await holdTransaction(
      world.db,
      (tx) => tx.$queryRaw`SELECT 1 FROM wakes WHERE message_id = ${wake.messageId} FOR UPDATE`,
    );
    const claiming = claimMessage(world.db, newExecution(wake.agentId, wake.messageId), wake, LIMITS);
    await untilWaiting(world.db, 1);
    const pausing = door.host.member.post(`${path()}/pause`);
    await untilWaiting(world.db, 2);
    await held.release();
    const [claim, { body }] = await Promise.all([claiming, pausing]);
    if (claim.kind !== 'granted') throw new Error(`not granted: ${claim.kind}`);
    expect(body.in_flight.map((each: { run: string }) => each.run)).toContain(claim.runId);
  });
});

test('what a held run would send is not sent by asking again: that is a message like any other', async () => {
  const run = await heldRun(world, { task_send: 'hold' }, { tasks_to_send: [SEND] });
  await closeAsLost(world.db, run.id);
  await setRights(world, {});
  expect(await door.host.member.post(`/v1/runs/${run.id}/ask-again`)).toMatchObject({ status: 201 });
  expect(await world.db.task.count({ where: { runId: run.id } })).toBe(0);
});
