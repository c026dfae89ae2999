// Failures that other systems had with claims, connection pools, clocks and rows in Postgres, and the tests that cover them.
//
//   another unique violation is read as "claimed"      claim.test: another unique constraint is an error
//   an upsert is used as a lock                        claim.test: fifty at once over five connections, twenty times
//   a write conflict is reported as another error      here; deadlocks: fence.test and interleavings.test
//   a pool never recovers                              here, and database-client.test for the pool alone
//   a connection is held during a slow call            here
//   a listener loses its connection unnoticed          dispatch.test
//   the clock of the application is wrong              here
//   a reader's cursor skips a late commit              dispatch.test: late commits are read and dispatched
//   a row is deleted during a run                      here
//   a run stays "running" after a crash                crash/worker-killed
//   a counter exceeds the integers of JSON             api-ledger.test

import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import pino from 'pino';
import { connectDatabase } from '../../prisma/client';
import { migrateDatabase } from '../../prisma/migrate';
import { createSecretBox } from '../../workflows/policy/secret-box';
import { claimMessage } from '../../prisma/store/runs/claims';
import { Transient } from '../../prisma/store/db/errors';
import { ensureOperatorKey } from '../../prisma/store/access/keys';
import { closeRun } from '../../prisma/store/runs/fence';
import type { Database } from '../../prisma/store/db/database';
import { deliverWakes } from '../../prisma/store/runs/wakes';
import { startEmbeddedPostgres, type EmbeddedPostgres } from '../../worker/local/postgres';
import { createClient, expectStatus, serveApi, setUpRoom, startTestApi, type TestApi } from '../support/api';
import { expectLedgerEqualsRoom, waitForNothingHeld } from '../support/ledger';
import { openRoom, type TestRoom } from '../support/rooms';
import { closedRun, startTestWorker, until, type TestWorker } from '../support/runs';
import { answer, startScriptedModel, type ScriptedModel } from '../support/scripted-model-server';
import { LIMITS, newExecution } from '../support/store-runs';
import { endWorkers, forkWorker, workerEnv } from '../support/worker-processes';
import { createWorld, type World } from '../support/world';

let model: ScriptedModel;
/** Closed in reverse order after each test, also after a failed test. */
const opened: (() => Promise<unknown>)[] = [];

beforeAll(async () => {
  model = await startScriptedModel();
});
afterEach(async () => {
  for (const close of opened.splice(0).reverse()) await close();
  model.reset();
});
afterAll(async () => {
  await endWorkers();
  await model.stop();
});

async function openWorld(options: { poolSize?: number } = {}): Promise<World> {
  const world = await createWorld({ modelUrl: model.url, ...options });
  opened.push(() => world.close());
  return world;
}

test('of twenty verdicts and twenty responses at once, each succeeds or is a conflict, and one verdict is stored', async () => {
  const api = await startTestApi();
  opened.push(() => api.close());
  const { larkspur, tamarack, path } = await setUpRoom(api);
  const task = { type: 'task', to: 'scout', goal: 'a goal' };
  const { id } = await expectStatus(201, larkspur.member.post(`${path}/events`, task));
  const respond = (n: number) =>
    tamarack.agent.post(`${path}/events`, { type: 'task_response', task: id, state: 'done', result: `result ${n}` });
  await expectStatus(201, respond(0));
  const sendVerdict = (n: number) =>
    larkspur.member.post(`${path}/events`, {
      type: 'task_verdict',
      task: id,
      verdict: n % 2 === 0 ? 'accepted' : 'rejected',
    });
  const numbers = Array.from({ length: 20 }, (_, n) => n);
  const responses = numbers.map((n) => respond(n));
  const verdicts = await Promise.all(numbers.map((n) => sendVerdict(n)));
  const statuses = (await Promise.all(responses)).map(({ status }) => status);
  expect(new Set([...statuses, 201, 409])).toEqual(new Set([201, 409]));
  expect(verdicts.map(({ status }) => status).sort()).toEqual([201, ...Array(19).fill(409)]);
  const winner = verdicts.findIndex(({ status }) => status === 201);
  const shown = await expectStatus(200, larkspur.member.get(`${path}/tasks/${id}`));
  expect(shown.verdict).toBe(winner % 2 === 0 ? 'accepted' : 'rejected');
  expect(await api.db.roomEvent.count({ where: { subjectId: id, type: 'task_verdict' } })).toBe(1);
  const written = await api.db.message.count({ where: { taskId: id, kind: 'response_card' } });
  expect(written).toBe(1 + statuses.filter((status) => status === 201).length);
});

describe('a restart of Postgres under twenty callers and a pool of two', () => {
  const dir = mkdtemp(join(tmpdir(), 'durable-room-cases-'));
  afterAll(async () => rm(await dir, { recursive: true, force: true }));

  test('requests get 503 until Postgres is back, then succeed, and accepted messages are processed', async () => {
    const start = async (port?: number): Promise<EmbeddedPostgres> =>
      startEmbeddedPostgres({ dir: await dir, port, durability: 'test', log: () => undefined });
    let server = await start();
    opened.push(() => server.stop());
    await migrateDatabase(server.url);
    const database = await connectDatabase(server.url, {
      poolSize: 2,
      lockTimeoutMs: 1_000,
      statementTimeoutMs: 2_000,
      transactionTimeoutMs: 3_000,
      applicationName: 'durable-room-test',
    });
    opened.push(() => database.close());
    const db = database;
    const secretBox = createSecretBox([{ id: 'test', key: Buffer.alloc(32, 7) }]);
    const providers = new Map([['openai', 'https://api.openai.com/v1']]);
    const log = pino({ level: 'silent' });
    const served = await serveApi({ db, secretBox, providers, allowedModelHosts: [], prices: new Map(), log });
    opened.push(() => served.close());
    const operatorKey = (await ensureOperatorKey(db, undefined)) as string;
    const client = (token?: string) => createClient(served.url, token);
    const { larkspur, path } = await setUpRoom({ db, operatorKey, client } as TestApi);
    const post = (text: string) => larkspur.member.post(`${path}/events`, { type: 'message', text });
    const first = await expectStatus(201, post('@scribe one'));
    await deliverWakes(db, 10);
    const execution = newExecution(larkspur.agentId, first.id);
    const claim = await claimMessage(db, execution, { agentId: larkspur.agentId, messageId: first.id }, LIMITS);
    if (claim.kind !== 'granted') throw new Error(`the claim was not granted: ${claim.kind}`);
    const second = await expectStatus(201, post('@scribe two'));

    // Twenty callers send requests without a pause, until the server has stopped and is back.
    let isCalling = true;
    const statuses: number[] = [];
    const callers = Array.from({ length: 20 }, async () => {
      while (isCalling) statuses.push((await larkspur.member.get('/v1/rooms')).status);
    });
    await until('a successful answer', async () => statuses.includes(200));
    await server.stop();
    await until('forty answers with 503', async () => statuses.filter((status) => status === 503).length >= 40);
    expect((await post('@scribe not now')).status).toBe(503);
    await expect(closeRun(db, execution, claim.runId, { kind: 'ended' })).rejects.toBeInstanceOf(Transient);
    server = await start(server.port);
    const before = statuses.length;
    await until(
      'forty successful answers',
      async () => statuses.slice(before).filter((each) => each === 200).length >= 40,
    );
    isCalling = false;
    await Promise.all(callers);
    expect(statuses.filter((status) => status !== 200 && status !== 503)).toEqual([]);
    // No request is refused any more: the pool has no dead connection.
    const after = await Promise.all(Array.from({ length: 20 }, () => larkspur.member.get('/v1/rooms')));
    expect(after.map(({ status }) => status)).toEqual(Array(20).fill(200));

    // The wake of the accepted message is still due, and the claimed run can end.
    expect((await deliverWakes(db, 10)).map((wake) => wake.messageId)).toContain(second.id);
    const due = { agentId: larkspur.agentId, messageId: second.id };
    const granted = await claimMessage(db, newExecution(due.agentId, due.messageId), due, LIMITS);
    expect(granted.kind).toBe('granted');
    expect(await closeRun(db, execution, claim.runId, { kind: 'ended' })).toBe('failed');
    await expectLedgerEqualsRoom(db, claim.runId);
  });
});

test('ten runs that wait for a slow model with a pool of two hold no transaction, and all reply', async () => {
  const world = await openWorld({ poolSize: 2 });
  let release = (): void => {};
  const released = new Promise<void>((resolve) => (release = resolve));
  model.respond(() => answer.with(answer.reply('At last.'), { until: released }));
  const worker = await startTestWorker(world, { timeouts: { limitMs: 120_000, modelMs: 90_000, heartbeatMs: 15_000 } });
  opened.push(() => worker.stop());
  const rooms = await Promise.all(
    Array.from({ length: 10 }, (_, n) => openRoom(world, { name: `slow-${n}`, modelUrl: model.url })),
  );
  const messageIds: string[] = [];
  for (const room of rooms) messageIds.push((await room.post(`@${room.agent.slug} take your time`)).messageId);
  await model.waitForRequests(10);

  const watcher = new pg.Client({ connectionString: world.url });
  await watcher.connect();
  opened.push(() => watcher.end());
  const inTransaction = async (): Promise<number> => {
    const { rows } = await watcher.query<{ n: number }>(
      `SELECT count(*)::int AS n FROM pg_stat_activity
       WHERE datname = current_database() AND pid <> pg_backend_pid() AND state LIKE 'idle in transaction%'`,
    );
    return rows[0]?.n ?? -1;
  };
  // A query may find a short transaction of the dispatcher. A transaction around the model call would stay open.
  await until('no transaction to be open', async () => (await inTransaction()) === 0);
  release();
  for (const messageId of messageIds) {
    expect(await closedRun(world.db, messageId)).toMatchObject({ ending: 'replied' });
  }
  expect(model.requests).toHaveLength(10);
  await waitForNothingHeld(world.db);
});

describe('a worker with a wrong clock', () => {
  test.each([
    ['ten minutes ahead', 600_000],
    ['ten minutes behind', -600_000],
  ])('%s: it claims, replies and records the times of Postgres', async (_, offMs) => {
    const world = await openWorld();
    const dir = await mkdtemp(join(tmpdir(), 'durable-room-clock-'));
    opened.push(() => rm(dir, { recursive: true, force: true }));
    const preload = join(dir, 'clock.cjs');
    await writeFile(
      preload,
      `const Real = Date, offMs = ${offMs};
       globalThis.Date = class extends Real {
         constructor(...args) { if (args.length === 0) super(Real.now() + offMs); else super(...args); }
         static now() { return Real.now() + offMs; }
       };`,
    );
    const env = { ...workerEnv(world, `clock-${offMs}`), NODE_OPTIONS: `--require ${preload}` };
    const worker = forkWorker(env);
    opened.push(() => worker.kill());
    await worker.ready;
    model.script(answer.error(529, 'overloaded', { 'retry-after-ms': '300' }), 'Here I am.');
    const { messageId } = await world.post('@scribe what time is it?');
    const run = await closedRun(world.db, messageId);
    expect(run).toMatchObject({ ending: 'replied', fencedCount: 0 });
    expect(run.requests.map((request) => request.outcome)).toEqual(['retry', 'answered']);
    const [row] = await world.db.$queryRaw<{ ordered: boolean }[]>`
      SELECT w.created_at <= r.claimed_at AND r.claimed_at <= r.closed_at AND r.closed_at <= clock_timestamp()
             AND m.created_at BETWEEN r.claimed_at AND clock_timestamp() AS ordered
      FROM runs r JOIN wakes w ON w.id = r.wake_id JOIN messages m ON m.run_id = r.id WHERE r.id = ${run.id}`;
    expect(row).toEqual({ ordered: true });
    await expectLedgerEqualsRoom(world.db, run.id);
  });
});

describe('a change during the model call', () => {
  let world: World;
  let worker: TestWorker;
  let rooms = 0;

  beforeAll(async () => {
    world = await createWorld({ modelUrl: model.url });
    worker = await startTestWorker(world);
  });
  afterAll(async () => {
    await worker.stop();
    await waitForNothingHeld(world.db);
    await world.close();
  });

  const CHANGES = [
    ['the agent is removed from the roster', 'not_a_member', removeFromRoster],
    ['its company leaves the room', 'not_a_member', leaveRoom],
    ['the room is closed', 'room_closed', closeRoom],
  ] as const;

  test.each(CHANGES)('%s: no reply is posted, and the ledger records the reason', async (_, code, change) => {
    const { room, messageId, answerNow } = await waitingRun();
    await change(world.db, room);
    answerNow();
    const run = await closedRun(world.db, messageId);
    expect(run).toMatchObject({ ending: 'not_allowed', code, requests: [{ outcome: 'answered' }] });
    expect(run.steps.map(({ stepKey, state }) => `${stepKey} ${state}`)).toEqual([
      'reply superseded',
      'memory superseded',
    ]);
    expect(await world.db.message.count({ where: { runId: run.id } })).toBe(0);
    expect(await world.db.memoryEntry.count({ where: { runId: run.id } })).toBe(0);
    await expectLedgerEqualsRoom(world.db, run.id);
  });

  test.each(CHANGES)('%s, the model fails: the run is cancelled without a second request', async (_, why, change) => {
    const { room, messageId, answerNow } = await waitingRun(answer.error(503, null, { 'retry-after-ms': '1' }));
    await change(world.db, room);
    answerNow();
    const run = await closedRun(world.db, messageId);
    expect(run).toMatchObject({ ending: 'cancelled', cancelledBy: 'room', cancelReason: why, steps: [] });
    expect(model.requests).toHaveLength(1);
    await expectLedgerEqualsRoom(world.db, run.id);
  });

  test('the model key is revoked: the answer of the sent request is posted, and no second request is sent', async () => {
    const posted = await waitingRun();
    await revokeKeyOf(posted.room);
    posted.answerNow();
    expect(await closedRun(world.db, posted.messageId)).toMatchObject({ ending: 'replied' });

    model.reset();
    const again = await waitingRun(answer.error(503, null, { 'retry-after-ms': '1' }));
    await revokeKeyOf(again.room);
    again.answerNow();
    const run = await closedRun(world.db, again.messageId);
    expect(run).toMatchObject({ ending: 'refused', code: 'key_rejected' });
    expect(model.requests).toHaveLength(1);
    await expectLedgerEqualsRoom(world.db, run.id);
  });

  /** Starts a run in its own room and waits for its model request. `answerNow` sends the answer. */
  async function waitingRun(first?: ReturnType<typeof answer.error>) {
    const memory = { category: 'fact', content: 'a line', tags: [], visibility: 'shared' } as const;
    const held = answer.hold(first ?? answer.reply({ reply: 'Done.', memory }));
    model.script(held);
    const room = await openRoom(world, { name: `waiting-${(rooms += 1)}`, modelUrl: model.url });
    const { messageId } = await room.post(`@${room.agent.slug} do it`);
    await model.waitForRequests(1);
    return { room, messageId, answerNow: held.release };
  }

  async function revokeKeyOf({ agent }: TestRoom): Promise<void> {
    const { modelKeyId } = await world.db.agent.findUniqueOrThrow({ where: { id: agent.id } });
    await world.db.modelKey.update({ where: { id: modelKeyId as string }, data: { revokedAt: new Date() } });
  }
});

async function removeFromRoster(db: Database, { agent }: TestRoom): Promise<void> {
  await db.roomAgent.updateMany({ where: { agentId: agent.id }, data: { removedAt: new Date() } });
}

async function leaveRoom(db: Database, { id }: TestRoom): Promise<void> {
  await db.roomMember.updateMany({ where: { roomId: id }, data: { leftAt: new Date() } });
}

async function closeRoom(db: Database, { id }: TestRoom): Promise<void> {
  await db.room.update({ where: { id }, data: { closedAt: new Date() } });
}
