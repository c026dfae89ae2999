// Many messages at once, two workers and two dispatchers: every message is answered exactly once.

import { connectDatabase, type Database } from '../../prisma/client';
import { expectGaplessRoom, waitForNothingHeld } from '../support/ledger';
import { startTestWorker, until, type TestWorker } from '../support/runs';
import { startScriptedModel, type ScriptedModel } from '../support/scripted-model-server';
import { createWorld, type World } from '../support/world';

const AGENTS = ['ana', 'ben', 'cleo', 'dan', 'eva'];
const POSTERS = 10;
const POSTS_EACH = 20;
const MESSAGES = POSTERS * POSTS_EACH;

const PATIENT = { limitMs: 150_000, stepMs: 20_000, modelMs: 60_000, heartbeatMs: 15_000 };

let model: ScriptedModel;
let world: World;
let second: Database;
const workers: TestWorker[] = [];

beforeAll(async () => {
  model = await startScriptedModel();
  world = await createWorld({ modelUrl: model.url, poolSize: 12, transactionMs: PATIENT.stepMs });
  for (const slug of AGENTS) await world.addAgent({ slug });
  second = await connectDatabase(world.url, {
    poolSize: 12,
    lockTimeoutMs: PATIENT.stepMs / 2,
    statementTimeoutMs: PATIENT.stepMs,
    transactionTimeoutMs: PATIENT.stepMs,
    applicationName: 'durable-room-test-2',
  });
  const first = await startTestWorker(world, { timeouts: PATIENT });
  workers.push(first);
  const ofItsOwn = { db: second, secretBox: world.secretBox };
  workers.push(await startTestWorker(ofItsOwn, { timeouts: PATIENT, taskQueue: first.taskQueue }));
});
afterAll(async () => {
  for (const worker of workers) await worker.stop();
  await second.close();
  await world.close();
  await model.stop();
});

test('200 messages to 5 agents, posted at once: 200 claims, 200 runs, 200 replies, and no gap in the feed', async () => {
  const posts = await Promise.all(
    Array.from({ length: POSTERS }, async (_, poster) => {
      const staged: string[] = [];
      for (let index = 0; index < POSTS_EACH; index += 1) {
        const slug = AGENTS[(poster + index) % AGENTS.length];
        staged.push((await world.post(`@${slug} message ${index} of ${poster}`)).messageId);
      }
      return staged;
    }),
  );
  const messageIds = posts.flat();
  await until(
    'every run to close',
    async () => (await world.db.run.count({ where: { state: 'closed' } })) === MESSAGES,
  );

  const runs = await world.db.run.findMany({ include: { claim: true, requests: true, steps: true } });
  expect(runs.map((run) => run.messageId).sort()).toEqual([...messageIds].sort());
  const short = runs.filter((run) => run.ending !== 'replied');
  expect(short.map(({ ending, code, steps, requests }) => ({ ending, code, steps, requests }))).toEqual([]);
  expect(new Set(runs.map((run) => run.fencedCount))).toEqual(new Set([0]));
  expect(runs.filter((run) => run.claim.temporalRunId !== run.temporalRunId)).toEqual([]);
  expect(runs.filter((run) => run.requests.length !== 1 || run.steps.length !== 1)).toEqual([]);
  expect(await world.db.agentRunLock.count()).toBe(MESSAGES);
  expect(model.requests).toHaveLength(MESSAGES);

  const replies = await world.db.message.findMany({ where: { authorKind: 'agent' } });
  expect(replies.map((reply) => reply.refersTo).sort()).toEqual([...messageIds].sort());
  const addressees = await world.db.messageAddressee.findMany({ where: { messageId: { in: messageIds } } });
  const agentOf = new Map(addressees.map(({ messageId, agentId }) => [messageId, agentId]));
  expect(replies.filter((reply) => agentOf.get(reply.refersTo as string) !== reply.authorId)).toEqual([]);

  // For each message: a message event, a reply and an ending. No other event.
  const room = await world.db.room.findUniqueOrThrow({ where: { id: world.roomId } });
  expect(Number(room.lastSeq)).toBe(3 * MESSAGES);
  expect(room.runAllowance).toBe(1_000 - MESSAGES);
  await expectGaplessRoom(world.db, world.roomId);
  expect(new Set((await world.db.wake.findMany()).map((wake) => wake.state))).toEqual(new Set(['claimed']));
  await waitForNothingHeld(world.db);
});

test('one of two workers is stopped and started three times under 50 messages: every one is answered once', async () => {
  const taskQueue = workers[0]?.taskQueue ?? '';
  const messageIds: string[] = [];
  const posting = (async () => {
    for (let index = 0; index < 50; index += 1) {
      messageIds.push((await world.post(`@ana message ${index} during a deploy`)).messageId);
    }
  })();
  for (let restart = 0; restart < 3; restart += 1) {
    await workers.pop()?.stop();
    const ofItsOwn = { db: second, secretBox: world.secretBox };
    workers.push(await startTestWorker(ofItsOwn, { timeouts: PATIENT, taskQueue }));
  }
  await posting;
  const where = { messageId: { in: messageIds }, state: 'closed' };
  await until('every run to close', async () => (await world.db.run.count({ where })) === 50);
  const runs = await world.db.run.findMany({ where });
  expect(new Set(runs.map((run) => run.ending))).toEqual(new Set(['replied']));
  const replies = await world.db.message.findMany({ where: { refersTo: { in: messageIds } } });
  expect(replies.map((reply) => reply.refersTo).sort()).toEqual([...messageIds].sort());
  await expectGaplessRoom(world.db, world.roomId);
});
