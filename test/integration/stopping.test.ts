// Stops and repeats through the API: cancel without a worker, ask-again, the pause of a room, and the pause of an agent in
// all its rooms.

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
let api: WorldApi;

beforeAll(async () => {
  world = await createWorld({ modelUrl: 'http://127.0.0.1:9/v1' });
  api = await openWorldApi(world);
});
afterAll(async () => {
  await api.close();
  await world.close();
});

describe('cancel', () => {
  test('closes the run at once without a worker, and stores a signal for its workflow', async () => {
    const run = await repliedRun(world, { reply: 'never posted' });
    const { status, body } = await api.host.member.post(`/v1/runs/${run.id}/cancel`, { reason: 'wrong room' });
    expect(status).toBe(200);
    expect(body).toMatchObject({
      state: 'closed',
      ending: 'cancelled',
      cancelled: { by: api.host.member.keyId, why: 'wrong room' },
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

  test('of a parked run supersedes its held actions, and the room gets one event', async () => {
    const run = await heldRun(world, { reply: 'hold', task_send: 'hold' });
    expect((await api.host.admin.post(`/v1/runs/${run.id}/cancel`)).body).toMatchObject({
      ending: 'cancelled',
      cancelled: { why: 'no reason given' },
    });
    expect(await holdStates(world, run.id)).toEqual({ reply: 'superseded', 'task_send:1': 'superseded' });
    await expectLedgerEqualsRoom(world.db, run.id);
  });

  test('returns the same answer if repeated; a run with another ending gets 409 with that ending', async () => {
    const run = await openRun(world);
    const first = await api.host.member.post(`/v1/runs/${run.id}/cancel`, { reason: 'first' });
    const second = await api.host.admin.post(`/v1/runs/${run.id}/cancel`, { reason: 'second' });
    expect(second).toMatchObject({ status: 200, body: first.body });
    expect(await world.db.runSignal.count({ where: { runId: run.id } })).toBe(1);
    const lost = await openRun(world);
    await closeAsLost(world.db, lost.id);
    expect(await api.host.member.post(`/v1/runs/${lost.id}/cancel`)).toMatchObject({
      status: 409,
      body: { code: 'conflict', state: 'lost' },
    });
  });

  test('is only for people of the run’s company: services, agents and other members get 403, other companies 404', async () => {
    const run = await openRun(world);
    for (const key of [api.host.service, api.host.agent, api.guest.admin]) {
      expect(await key.post(`/v1/runs/${run.id}/cancel`)).toMatchObject({ status: 403 });
    }
    expect(await api.host.member.post(`/v1/runs/${newId('run')}/cancel`)).toMatchObject({ status: 404 });
    await world.db
      .$executeRaw`UPDATE room_members SET left_at = clock_timestamp() WHERE company_id = ${world.guest.id}`;
    expect(await api.guest.admin.post(`/v1/runs/${run.id}/cancel`)).toMatchObject({ status: 404 });
    await world.db.$executeRaw`UPDATE room_members SET left_at = NULL WHERE company_id = ${world.guest.id}`;
    expect((await world.db.run.findUniqueOrThrow({ where: { id: run.id } })).state).toBe('open');
  });

  test('shows its author and reason only to the run’s company', async () => {
    const run = await openRun(world);
    await api.host.member.post(`/v1/runs/${run.id}/cancel`, { reason: 'a secret reason' });
    for (const path of [`/v1/runs/${run.id}`, '/v1/runs', `/v1/rooms/${world.roomId}/events?limit=200`]) {
      expect((await api.guest.admin.get(path)).text).not.toContain('a secret reason');
    }
    expect((await api.guest.admin.get(`/v1/runs/${run.id}`)).body).toMatchObject({ ending: 'cancelled' });
  });

  test.each<[string, object]>([
    ['an empty reason', { reason: '' }],
    ['a long reason', { reason: 'x'.repeat(501) }],
    ['a reason that is not text', { reason: 7 }],
    ['an unknown field', { why: 'x' }],
  ])('refuses %s', async (_, body) => {
    expect(await api.host.member.post(`/v1/runs/${newId('run')}/cancel`, body)).toMatchObject({ status: 400 });
  });

  test('waits for a step in progress: its effect remains, and the run is cancelled after it or not at all', async () => {
    await setRights(world, {});
    const run = await repliedRun(world, {
      reply: 'a reply',
      memory: { category: 'fact', content: 'x', tags: [], visibility: 'shared' },
    });
    const held = await holdTransaction(
      world.db,
      (tx) => tx.$queryRaw`SELECT 1 FROM runs WHERE id = ${run.id} FOR UPDATE`,
    );
    const posting = activitiesOf(world, run.execution).postReply({ run: run.id, step: 'reply' });
    await untilWaiting(world.db, 1);
    const cancelling = api.host.member.post(`/v1/runs/${run.id}/cancel`);
    await untilWaiting(world.db, 2);
    await held.release();
    const [, cancelled] = await Promise.all([posting, cancelling]);
    expect(cancelled.body).toMatchObject({ ending: 'cancelled', steps: [{ state: 'done' }, { state: 'not_reached' }] });
    await expectLedgerEqualsRoom(world.db, run.id);
  });
});

describe('ask-again', () => {
  test('of an unsuccessful run posts a new message of the caller with the old text, only for that agent', async () => {
    const posted = await world.post('@scribe and @scout, please', { author: world.guest.person });
    await deliverWakes(world.db, 100);
    const wake = { agentId: world.scribe.id, messageId: posted.messageId };
    const claim = await claimMessage(world.db, newExecution(wake.agentId, wake.messageId), wake, LIMITS);
    if (claim.kind !== 'granted') throw new Error('not granted');
    expect(await api.host.service.post(`/v1/runs/${claim.runId}/ask-again`)).toMatchObject({ status: 409 });
    await closeAsLost(world.db, claim.runId);
    const { status, body } = await api.host.service.post(`/v1/runs/${claim.runId}/ask-again`);
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

  test('of a task sends a new task of the caller with the same goal', async () => {
    const sent = await world.sendTask('scribe', 'count them');
    await deliverWakes(world.db, 100);
    const wake = { agentId: world.scribe.id, messageId: sent.messageId };
    const execution = newExecution(wake.agentId, wake.messageId);
    const claim = await claimMessage(world.db, execution, wake, LIMITS);
    if (claim.kind !== 'granted') throw new Error('not granted');
    await closeRun(world.db, execution, claim.runId, { kind: 'timed_out' });
    const wakeId = sent.wakes[0]!.wakeId;
    const { body, status } = await api.guest.member.post(`/v1/wakes/${wakeId}/ask-again`);
    expect(status).toBe(201);
    const task = await world.db.task.findUniqueOrThrow({ where: { id: body.id } });
    expect(task).toMatchObject({
      goal: 'count them',
      senderKind: 'person',
      senderId: api.guest.member.keyId,
      recipientAgentId: world.scribe.id,
      state: 'pending',
    });
    expect(await world.db.message.findUniqueOrThrow({ where: { id: task.cardMessageId } })).toMatchObject({
      refersTo: sent.messageId,
      kind: 'task_card',
    });
  });

  test('of a suppressed wake creates a new wake, which passes the gates again', async () => {
    await world.db.agent.update({ where: { id: world.scribe.id }, data: { pausedAt: new Date() } });
    const posted = await world.post('@scribe while you sleep');
    const path = `/v1/wakes/${posted.wakes[0]!.wakeId}/ask-again`;
    expect((await api.host.member.post(path)).body.wakes).toMatchObject([{ status: 'suppressed', reason: 'paused' }]);
    expect((await api.guest.member.post(path)).body.wakes).toMatchObject([{ reason: 'unavailable' }]);
    await world.db.agent.update({ where: { id: world.scribe.id }, data: { pausedAt: null } });
    expect((await api.host.member.post(path)).body.wakes).toMatchObject([{ status: 'pending' }]);
  });

  test('is refused before the run ends, for a redacted message and for a removed agent; other companies get 404', async () => {
    const pending = await world.post('@scribe now');
    expect(await api.host.member.post(`/v1/wakes/${pending.wakes[0]!.wakeId}/ask-again`)).toMatchObject({
      status: 409,
      body: { code: 'conflict', state: 'pending' },
    });
    const run = await openRun(world);
    await closeAsLost(world.db, run.id);
    const path = `/v1/runs/${run.id}/ask-again`;
    await world.db.$executeRaw`UPDATE messages SET text = '' WHERE id = ${run.messageId}`;
    expect(await api.host.member.post(path)).toMatchObject({ status: 409 });
    await world.db.$executeRaw`UPDATE messages SET text = 'x' WHERE id = ${run.messageId}`;
    await world.db
      .$executeRaw`UPDATE room_agents SET removed_at = clock_timestamp() WHERE agent_id = ${world.scribe.id}`;
    expect(await api.host.member.post(path)).toMatchObject({ status: 409 });
    await world.db.$executeRaw`UPDATE room_agents SET removed_at = NULL WHERE agent_id = ${world.scribe.id}`;
    expect(await api.host.member.post(`/v1/runs/${newId('run')}/ask-again`)).toMatchObject({ status: 404 });
    await world.db
      .$executeRaw`UPDATE room_members SET left_at = clock_timestamp() WHERE company_id = ${world.guest.id}`;
    expect(await api.guest.member.post(path)).toMatchObject({ status: 404 });
    await world.db.$executeRaw`UPDATE room_members SET left_at = NULL WHERE company_id = ${world.guest.id}`;
    expect(await api.host.member.post(path)).toMatchObject({ status: 201 });
  });

  test('with an agent’s key posts as that agent, one hop deeper, and only if its right is go', async () => {
    await setRights(world, {});
    const run = await openRun(world, { hop: 3 });
    await closeAsLost(world.db, run.id);
    const posted = await world.post('@scout look at this', { hop: 4 });
    const path = `/v1/runs/${run.id}/ask-again`;
    const { body } = await api.guest.agent.post(path);
    expect(await world.db.message.findUniqueOrThrow({ where: { id: body.id } })).toMatchObject({
      authorId: world.scout.id,
      hop: 5,
    });
    expect(posted.messageId).toBeDefined();
    await setRights(world, { reply: 'hold' });
    expect(await api.host.agent.post(path)).toMatchObject({ status: 403 });
    await setRights(world, {});
    // Its own message does not wake an agent.
    expect((await api.host.agent.post(path)).body.wakes).toEqual([]);
  });
});

describe('a paused room', () => {
  const path = () => `/v1/rooms/${world.roomId}`;
  afterEach(async () => {
    await api.host.member.post(`${path()}/resume`);
  });

  test('starts no run; runs in flight are listed and continue; after a resume, runs start again', async () => {
    await setRights(world, {});
    for (const { id } of await world.db.run.findMany({ where: { state: 'open' } })) await closeAsLost(world.db, id);
    const inFlight = await repliedRun(world, { reply: 'continues' });
    const delivered = await deliveredWake(world);
    const pending = await world.post('@scribe in the queue');
    // Acknowledges the wakes of earlier tests, so that none is due again.
    await world.db.$executeRaw`
      UPDATE wakes SET started_at = now()
      WHERE state = 'delivered' AND started_at IS NULL AND message_id <> ${delivered.messageId}`;

    const { status, body } = await api.host.member.post(`${path()}/pause`);
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

    const resumed = await api.host.admin.post(`${path()}/resume`);
    expect(resumed).toMatchObject({ status: 200, body: { paused_at: null } });
    expect((await world.post('@scribe again')).wakes).toMatchObject([{ status: 'pending' }]);
  });

  test('gets one event each, with the author, for two pauses and two resumes', async () => {
    const before = (await eventsOf(world, 'room_paused', 'room_resumed')).length;
    for (const verb of ['pause', 'pause', 'resume', 'resume']) {
      expect(await api.host.member.post(`${path()}/${verb}`)).toMatchObject({ status: 200 });
    }
    const events = (await eventsOf(world, 'room_paused', 'room_resumed')).slice(before);
    expect(events).toMatchObject([
      { type: 'room_paused', authorId: api.host.member.keyId },
      { type: 'room_resumed', authorId: api.host.member.keyId },
    ]);
  });

  test('is paused only by people of the host: guests, services and agents get 403, other companies 404', async () => {
    for (const verb of ['pause', 'resume']) {
      for (const key of [api.guest.admin, api.host.service, api.host.agent]) {
        expect(await key.post(`${path()}/${verb}`)).toMatchObject({ status: 403 });
      }
      expect(await api.host.member.post(`/v1/rooms/${newId('room')}/${verb}`)).toMatchObject({ status: 404 });
    }
  });

  test('waits for a claim in progress and lists its run as in flight', async () => {
    const wake = await deliveredWake(world);
    // Holds the wake row that the claim reads after its shared lock of the membership.
    const held = await holdTransaction(
      world.db,
      (tx) => tx.$queryRaw`SELECT 1 FROM wakes WHERE message_id = ${wake.messageId} FOR UPDATE`,
    );
    const claiming = claimMessage(world.db, newExecution(wake.agentId, wake.messageId), wake, LIMITS);
    await untilWaiting(world.db, 1);
    const pausing = api.host.member.post(`${path()}/pause`);
    await untilWaiting(world.db, 2);
    await held.release();
    const [claim, { body }] = await Promise.all([claiming, pausing]);
    if (claim.kind !== 'granted') throw new Error(`not granted: ${claim.kind}`);
    expect(body.in_flight.map((each: { run: string }) => each.run)).toContain(claim.runId);
  });
});

describe('an agent that is paused in all its rooms', () => {
  const path = () => `/v1/agents/${world.scribe.id}`;
  afterEach(async () => {
    await api.host.member.post(`${path()}/resume`);
  });

  test('starts no run; its runs in flight are listed and continue', async () => {
    await setRights(world, {});
    for (const { id } of await world.db.run.findMany({ where: { state: 'open' } })) await closeAsLost(world.db, id);
    const inFlight = await repliedRun(world, { reply: 'continues' });
    const delivered = await deliveredWake(world);
    const asked = await world.post('@scout meanwhile');
    await deliverWakes(world.db, 100);
    const others = { agentId: world.scout.id, messageId: asked.messageId };
    const claim = await claimMessage(world.db, newExecution(others.agentId, others.messageId), others, LIMITS);
    expect(claim).toMatchObject({ kind: 'granted' });

    const { status, body } = await api.host.member.post(`${path()}/pause`);
    expect(status).toBe(200);
    expect(body.in_flight).toEqual([{ run: inFlight.id, room: world.roomId, message: inFlight.messageId }]);
    expect(await api.host.admin.post(`${path()}/pause`)).toMatchObject({
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
    expect(await api.host.member.post(`${path()}/resume`)).toMatchObject({ status: 200, body: { paused_at: null } });
    expect((await world.post('@scribe again')).wakes).toMatchObject([{ status: 'pending' }]);
  });

  test('gets one audit entry each for two pauses and two resumes', async () => {
    const auditEntries = () =>
      world.db.auditEntry.findMany({ where: { subjectId: world.scribe.id }, orderBy: { id: 'asc' } });
    const before = (await auditEntries()).length;
    for (const verb of ['pause', 'pause', 'resume', 'resume']) {
      expect(await api.host.member.post(`${path()}/${verb}`)).toMatchObject({ status: 200 });
    }
    expect((await auditEntries()).slice(before)).toMatchObject([
      { action: 'agent.paused' },
      { action: 'agent.resumed' },
    ]);
  });

  test('waits for a claim in progress and lists its run as in flight', async () => {
    const wake = await deliveredWake(world);
    // Holds the wake row that the claim reads after its shared lock of the agent's roster row.
    const held = await holdTransaction(
      world.db,
      (tx) => tx.$queryRaw`SELECT 1 FROM wakes WHERE message_id = ${wake.messageId} FOR UPDATE`,
    );
    const claiming = claimMessage(world.db, newExecution(wake.agentId, wake.messageId), wake, LIMITS);
    await untilWaiting(world.db, 1);
    const pausing = api.host.member.post(`${path()}/pause`);
    await untilWaiting(world.db, 2);
    await held.release();
    const [claim, { body }] = await Promise.all([claiming, pausing]);
    if (claim.kind !== 'granted') throw new Error(`not granted: ${claim.kind}`);
    expect(body.in_flight.map((each: { run: string }) => each.run)).toContain(claim.runId);
  });
});

test('ask-again posts a message and does not execute the held actions of the run', async () => {
  const run = await heldRun(world, { task_send: 'hold' }, { tasks_to_send: [SEND] });
  await closeAsLost(world.db, run.id);
  await setRights(world, {});
  expect(await api.host.member.post(`/v1/runs/${run.id}/ask-again`)).toMatchObject({ status: 201 });
  expect(await world.db.task.count({ where: { runId: run.id } })).toBe(0);
});
