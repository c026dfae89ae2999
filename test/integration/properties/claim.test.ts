// The claim: one winner per agent and message, permanently. The winner may claim again; every other execution is refused.

import { connectDatabase } from '../../../prisma/client';
import { claimAsLost, claimMessage, type ClaimOutcome } from '../../../prisma/store/runs/claims';
import { closeAsLost } from '../../../prisma/store/runs/fence';
import { newId } from '../../../prisma/store/db/ids';
import { constraintOf } from '../../../prisma/store/db/sql-errors';
import type { SqlTx } from '../../../prisma/store/db/transaction';
import { deliverWakes } from '../../../prisma/store/runs/wakes';
import {
  deliveredWake,
  eventsOf,
  holdTransaction,
  LIMITS,
  newExecution,
  openRun,
  untilWaiting,
} from '../../support/store-runs';
import { openTcpGate } from '../../support/tcp-gate';
import { createWorld, type World } from '../../support/world';
import { repetitions } from '../../support/test-runs';

let world: World;

beforeAll(async () => {
  world = await createWorld({ modelUrl: 'http://127.0.0.1:9/v1', poolSize: 5 });
});
afterAll(() => world.close());

type Wake = { agentId: string; messageId: string };

const claim = (wake: Wake, execution = newExecution(wake.agentId, wake.messageId)): Promise<ClaimOutcome> =>
  claimMessage(world.db, execution, wake, LIMITS);

async function written(wake: Wake): Promise<{ claims: number; runs: number; wake: string | undefined }> {
  const where = { agentId: wake.agentId, messageId: wake.messageId };
  return {
    claims: await world.db.agentRunLock.count({ where }),
    runs: await world.db.run.count({ where }),
    wake: (await world.db.wake.findFirst({ where }))?.state,
  };
}

describe('a claim is granted to', () => {
  test('one of fifty concurrent executions over five connections, in every round', async () => {
    for (let round = 0; round < repetitions(3, 20); round += 1) {
      const wake = await deliveredWake(world);
      const outcomes = await Promise.all(Array.from({ length: 50 }, () => claim(wake)));
      const granted = outcomes.filter((outcome) => outcome.kind === 'granted');
      const runId = granted[0]?.runId;
      expect(granted).toHaveLength(1);
      expect(outcomes.filter((outcome) => outcome.kind === 'refused')).toEqual(
        Array.from({ length: 49 }, () => ({ kind: 'refused', why: 'already_claimed', runId })),
      );
      expect(await written(wake)).toEqual({ claims: 1, runs: 1, wake: 'claimed' });
      expect(await world.db.run.findUniqueOrThrow({ where: { id: runId as string } })).toMatchObject({
        fencedCount: 49,
      });
    }
  });

  test('the same execution repeatedly, because its acknowledgement may be lost', async () => {
    const wake = await deliveredWake(world);
    const execution = newExecution(wake.agentId, wake.messageId);
    const outcomes = await Promise.all(Array.from({ length: 10 }, () => claim(wake, execution)));
    const runs = new Set(outcomes.map((outcome) => (outcome.kind === 'granted' ? outcome.runId : outcome.kind)));
    expect(runs.size).toBe(1);
    expect(await claim(wake, execution)).toMatchObject({ kind: 'granted', onCrash: 'stop', ...LIMITS });
    expect(await world.db.run.findFirstOrThrow({ where: wake })).toMatchObject({ state: 'open', fencedCount: 0 });
  });

  test('no execution of a run that was closed meanwhile; its owner gets the ending', async () => {
    const run = await openRun(world);
    await closeAsLost(world.db, run.id);
    expect(await claim(run, run.execution)).toEqual({ kind: 'closed', runId: run.id, ending: 'lost' });
    expect(await claim(run)).toEqual({ kind: 'refused', why: 'already_claimed', runId: run.id });
  });

  test('no second execution of the same workflow (a reset): it is refused and counted, and the run continues', async () => {
    const run = await openRun(world);
    for (const _ of [1, 2]) expect(await claim(run)).toMatchObject({ kind: 'refused', why: 'already_claimed' });
    expect(await world.db.run.findUniqueOrThrow({ where: { id: run.id } })).toMatchObject({
      state: 'open',
      fencedCount: 2,
      temporalRunId: run.execution.temporalRunId,
    });
  });

  test('an execution or the reconciler, never both', async () => {
    for (let round = 0; round < 10; round += 1) {
      const wake = await deliveredWake(world);
      const execution = newExecution(wake.agentId, wake.messageId);
      const [mine, lost] = await Promise.all([
        claim(wake, execution),
        claimAsLost(world.db, { ...wake, workflowId: execution.workflowId }, LIMITS),
      ]);
      expect([mine.kind === 'granted', lost !== null].filter(Boolean)).toHaveLength(1);
      const run = await world.db.run.findFirstOrThrow({ where: wake });
      expect(run).toMatchObject(lost === null ? { state: 'open' } : { id: lost, state: 'closed', ending: 'lost' });
    }
  });
});

describe('no claim is possible for', () => {
  test('a message that did not wake the agent', async () => {
    const wake = { agentId: world.scout.id, messageId: (await world.post('@scribe not for scout')).messageId };
    expect(await claim(wake)).toEqual({ kind: 'refused', why: 'no_wake', runId: null });
    expect(await written(wake)).toEqual({ claims: 0, runs: 0, wake: undefined });
    await deliverWakes(world.db, 100);
  });

  test('a wake that no dispatcher has delivered: a start in Temporal alone runs no agent', async () => {
    const wake = { agentId: world.scribe.id, messageId: (await world.post('@scribe soon')).messageId };
    expect(await claim(wake)).toEqual({ kind: 'refused', why: 'not_delivered', runId: null });
    expect(await claimAsLost(world.db, { ...wake, workflowId: 'w' }, LIMITS)).toBeNull();
    expect(await written(wake)).toEqual({ claims: 0, runs: 0, wake: 'pending' });
    await deliverWakes(world.db, 100);
    expect(await claim(wake)).toMatchObject({ kind: 'granted' });
  });

  test('a wake that was suppressed', async () => {
    const wake = { agentId: world.scribe.id, messageId: (await world.post('@scribe too deep', { hop: 9 })).messageId };
    await deliverWakes(world.db, 100);
    expect(await claim(wake)).toEqual({ kind: 'refused', why: 'suppressed', runId: null });
    expect(await written(wake)).toEqual({ claims: 0, runs: 0, wake: 'suppressed' });
  });
});

describe('a gate that closes between delivery and claim closes the run as cancelled, with the reason', () => {
  const roomId = () => world.roomId;
  const agent = () => ({ roomId: roomId(), agentId: world.scribe.id });
  const gates: [string, string, (now: Date | null) => Promise<unknown>][] = [
    [
      'the agent paused',
      'paused',
      (pausedAt) => world.db.agent.update({ where: { id: world.scribe.id }, data: { pausedAt } }),
    ],
    ['the room paused', 'paused', (pausedAt) => world.db.room.update({ where: { id: roomId() }, data: { pausedAt } })],
    [
      'the room closed',
      'room_closed',
      (closedAt) => world.db.room.update({ where: { id: roomId() }, data: { closedAt } }),
    ],
    [
      'the company suspended',
      'suspended',
      (suspendedAt) => world.db.company.update({ where: { id: world.host.id }, data: { suspendedAt } }),
    ],
    [
      'the company left the room',
      'not_a_member',
      (leftAt) =>
        world.db.roomMember.updateMany({ where: { roomId: roomId(), companyId: world.host.id }, data: { leftAt } }),
    ],
    [
      'the agent removed from the roster',
      'not_a_member',
      (removedAt) => world.db.roomAgent.updateMany({ where: agent(), data: { removedAt } }),
    ],
    [
      'its key revoked',
      'key_rejected',
      (revokedAt) => world.db.modelKey.updateMany({ where: { name: 'key of scribe' }, data: { revokedAt } }),
    ],
    [
      'its key refused',
      'key_rejected',
      (at) => world.db.modelKey.updateMany({ where: { name: 'key of scribe' }, data: { rejectedVersion: at && 1 } }),
    ],
  ];
  test.each(gates)('%s', async (_, reason, shut) => {
    const wake = await deliveredWake(world, { task: true });
    await shut(new Date());
    const outcome = await claim(wake);
    await shut(null);
    expect(outcome).toMatchObject({ kind: 'closed', ending: 'cancelled' });
    const run = await world.db.run.findFirstOrThrow({ where: wake, include: { steps: true, requests: true } });
    expect(run).toMatchObject({
      ending: 'cancelled',
      cancelledBy: 'room',
      cancelReason: reason,
      steps: [],
      requests: [],
    });
    expect(await world.db.task.findFirstOrThrow({ where: { cardMessageId: wake.messageId } })).toMatchObject({
      state: 'pending',
    });
    const ended = (await eventsOf(world, 'run_ended')).filter((event) => event.subjectId === run.id);
    expect(ended).toMatchObject([{ data: { ending: 'cancelled', message: wake.messageId } }]);
    expect(JSON.stringify(ended[0]?.data)).not.toContain(reason);
  });
});

describe('a concurrent departure or close', () => {
  const leave = (tx: World['db'] | SqlTx) =>
    tx.$executeRaw`UPDATE room_members SET left_at = clock_timestamp()
                   WHERE room_id = ${world.roomId} AND company_id = ${world.host.id}`;
  const rejoin = () => world.db.$executeRaw`UPDATE room_members SET left_at = NULL WHERE room_id = ${world.roomId}`;

  test('is seen by the claim that waited for it, if the company leaves first', async () => {
    const wake = await deliveredWake(world);
    const leaving = await holdTransaction(world.db, leave);
    const claiming = claim(wake);
    await untilWaiting(world.db);
    await leaving.release();
    const outcome = await claiming;
    await rejoin();
    expect(outcome).toMatchObject({ kind: 'closed', ending: 'cancelled' });
  });

  test('waits for the claim and sees its run, if the company leaves second', async () => {
    const wake = await deliveredWake(world, { task: true });
    // The claim waits for the room lock, its last lock, so its transaction is still open.
    const writer = await holdTransaction(
      world.db,
      (tx) => tx.$queryRaw`SELECT 1 AS locked FROM rooms FOR NO KEY UPDATE`,
    );
    const claiming = claim(wake);
    await untilWaiting(world.db);
    const leaving = world.db.transaction(async (tx) => {
      await leave(tx);
      return tx.run.count({ where: { ...wake, state: 'open' } });
    });
    await untilWaiting(world.db, 2);
    await writer.release();
    const seen = [(await claiming).kind, await leaving];
    await rejoin();
    expect(seen).toEqual(['granted', 1]);
  });

  test('of the room during the wait of the claim is seen after the wait', async () => {
    const wake = await deliveredWake(world);
    // The close of a room locks the memberships first and does not change them.
    const closing = await holdTransaction(world.db, async (tx) => {
      await tx.$queryRaw`SELECT 1 AS locked FROM room_members WHERE room_id = ${world.roomId} FOR NO KEY UPDATE`;
      await tx.$executeRaw`UPDATE rooms SET closed_at = clock_timestamp() WHERE id = ${world.roomId}`;
    });
    const claiming = claim(wake);
    await untilWaiting(world.db);
    await closing.release();
    const outcome = await claiming;
    await world.db.room.update({ where: { id: world.roomId }, data: { closedAt: null } });
    expect(outcome).toMatchObject({ kind: 'closed', ending: 'cancelled' });
    expect(await world.db.run.findFirstOrThrow({ where: wake })).toMatchObject({ cancelReason: 'room_closed' });
  });
});

describe('an error that is not a lost claim', () => {
  test('a violation of another unique constraint fails the claim, and nothing is written', async () => {
    const [wake, other] = [await deliveredWake(world), newId('msg')];
    const { id: wakeId } = await world.db.wake.findFirstOrThrow({ where: wake });
    const runId = newId('run');
    await world.db.agentRunLock.create({
      data: { agentId: world.scribe.id, messageId: other, runId, workflowId: 'w' },
    });
    await world.db.$executeRaw`
      INSERT INTO runs (id, agent_id, message_id, room_id, company_id, wake_id, workflow_id, on_crash, hop, time_limit_ms, due_at)
      VALUES (${runId}, ${world.scribe.id}, ${other}, ${world.roomId}, ${world.host.id}, ${wakeId}, 'w', 'stop', 1, 1, now())`;
    const error: unknown = await claim(wake).catch((thrown: unknown) => thrown);
    expect(constraintOf(error)).toContain('wake_id');
    expect(await written(wake)).toEqual({ claims: 0, runs: 0, wake: 'delivered' });
  });

  test('an unreachable database is transient, and a later claim succeeds', async () => {
    const wake = await deliveredWake(world);
    const url = new URL(world.url);
    const gate = await openTcpGate(Number(url.port));
    url.port = String(gate.port);
    const cut = await connectDatabase(url.toString(), {
      poolSize: 2,
      lockTimeoutMs: 1_000,
      statementTimeoutMs: 2_000,
      transactionTimeoutMs: 3_000,
      applicationName: 'durable-room-test',
    });
    await gate.close();
    const execution = newExecution(wake.agentId, wake.messageId);
    await expect(claimMessage(cut, execution, wake, LIMITS)).rejects.toMatchObject({ name: 'Transient' });
    expect(await written(wake)).toEqual({ claims: 0, runs: 0, wake: 'delivered' });
    expect(await claim(wake, execution)).toMatchObject({ kind: 'granted' });
    await cut.close();
  });
});

test('the claim of a card starts its task once, and the event keeps the time of sending', async () => {
  const run = await openRun(world, { task: true });
  expect(await claim(run, run.execution)).toMatchObject({ kind: 'granted' });
  const task = await world.db.task.findFirstOrThrow({ where: { cardMessageId: run.messageId } });
  expect(task.state).toBe('in_progress');
  const started = (await eventsOf(world, 'task_started')).filter((event) => event.subjectId === task.id);
  expect(started).toMatchObject([
    { authorId: world.scribe.id, data: { state: 'in_progress', created_at: task.createdAt.toISOString() } },
  ]);
});

test('a run is one hop deeper than the message that woke it', async () => {
  const run = await openRun(world, { hop: 3 });
  expect(await world.db.run.findUniqueOrThrow({ where: { id: run.id } })).toMatchObject({ hop: 4 });
});
