// The fence when a transaction does not commit: a step has its effect once, or none.

import { connectDatabase, type Database } from '../../prisma/client';
import { stageMemory } from '../../prisma/store/rooms/memory';
import { executeStepOnce, type Effect } from '../../prisma/store/runs/fence';
import type { SqlTx } from '../../prisma/store/db/transaction';
import { until } from '../support/run-waits';
import { activitiesOf, eventsOf, holdTransaction, repliedRun, type OpenRun } from '../support/store-runs';
import { createWorld, type World } from '../support/world';

const MODEL_URL = 'http://127.0.0.1:9/v1';
let world: World;

beforeAll(async () => {
  world = await createWorld({ modelUrl: MODEL_URL });
});
afterAll(() => world.close());

const LINE = { category: 'fact', content: 'the line', tags: ['tag'], visibility: 'shared' } as const;

const acting = (run: OpenRun, execution = run.execution) => activitiesOf(world, execution);

/** Everything that a run has stored. */
async function leftBy(run: OpenRun) {
  const where = { runId: run.id };
  const row = await world.db.run.findUniqueOrThrow({
    where: { id: run.id },
    include: { steps: { orderBy: { position: 'asc' } } },
  });
  return {
    texts: (await world.db.message.findMany({ where, orderBy: { seq: 'asc' } })).map((message) => message.text),
    lines: await world.db.memoryEntry.count({ where }),
    steps: row.steps.map((step) => `${step.stepKey}=${step.state}`),
    ending: row.ending,
    fenced: row.fencedCount,
    endedEvents: (await eventsOf(world, 'run_ended')).filter((event) => event.subjectId === run.id).length,
  };
}

describe('a transaction that does not commit', () => {
  test('stores nothing, and the next attempt can execute the step', async () => {
    const run = await repliedRun(world, { memory: LINE });
    const act = (fails: boolean) =>
      executeStepOnce(world.db, run.execution, run.id, 'memory', async ({ tx, draft, runContext }): Promise<Effect> => {
        await tx.$executeRaw`UPDATE agents SET instructions = 'half written' WHERE id = ${world.scribe.id}`;
        const { memoryId } = stageMemory(draft, world.roomId, {
          author: runContext.author,
          ...LINE,
          runId: run.id,
        });
        if (fails) draft.addTask({ id: null } as never); // Fails the statement that writes everything else.
        return { state: 'done', effectId: memoryId };
      });
    const before = await eventsOf(world);
    await expect(act(true)).rejects.toThrow();
    expect(await leftBy(run)).toMatchObject({ lines: 0, steps: [], ending: null });
    expect(await eventsOf(world)).toEqual(before);
    expect((await world.db.agent.findUniqueOrThrow({ where: { id: world.scribe.id } })).instructions).toBe('Be brief.');
    expect(await act(false)).toMatchObject({ state: 'done', ending: 'silent' });
    expect(await leftBy(run)).toMatchObject({ lines: 1, steps: ['memory=done'], endedEvents: 1 });
  });

  test('because of a deadlock is retried within the attempt, and acts once', async () => {
    const runs = [await repliedRun(world, { memory: LINE }), await repliedRun(world, { memory: LINE })];
    let holding = 0;
    let bothHold = (): void => {};
    const both = new Promise<void>((resolve) => (bothHold = resolve));
    const entered = [0, 0];
    const outcomes = await Promise.all(
      runs.map((run, mine) =>
        executeStepOnce(
          world.db,
          run.execution,
          run.id,
          'memory',
          async ({ tx, draft, runContext }): Promise<Effect> => {
            entered[mine]! += 1;
            await tx.$executeRaw`SELECT pg_advisory_xact_lock(${mine}::int)`;
            if (++holding === 2) bothHold();
            await both;
            await tx.$executeRaw`SELECT pg_advisory_xact_lock(${1 - mine}::int)`;
            const { memoryId } = stageMemory(draft, world.roomId, {
              author: runContext.author,
              ...LINE,
              runId: run.id,
            });
            return { state: 'done', effectId: memoryId };
          },
        ),
      ),
    );
    expect(outcomes).toMatchObject([{ ending: 'silent' }, { ending: 'silent' }]);
    expect(entered[0]! + entered[1]!).toBe(3);
    for (const run of runs)
      expect(await leftBy(run)).toMatchObject({ lines: 1, steps: ['memory=done'], endedEvents: 1 });
  });

  describe('because of a lock timeout', () => {
    const times = { lockTimeoutMs: 100, statementTimeoutMs: 2_000, transactionTimeoutMs: 3_000 };
    const blocked = async (work: (hasty: Database, release: () => Promise<void>) => Promise<void>) => {
      const hasty = await connectDatabase(world.url, { poolSize: 2, applicationName: 'durable-room-test', ...times });
      const rooms = (tx: SqlTx) => tx.$queryRaw`SELECT 1 AS locked FROM rooms FOR NO KEY UPDATE`;
      const writer = await holdTransaction(world.db, rooms);
      await work(hasty, writer.release);
      await hasty.close();
    };

    test('is retried while the attempt has time, because it may be the only attempt', async () => {
      const run = await repliedRun(world, { reply: 'patient' });
      await blocked(async (hasty, release) => {
        let waits = 0;
        hasty.pool.on('release', (error) => (waits += error === undefined ? 1 : 0));
        const posting = activitiesOf(world, run.execution, hasty, 20_000).postReply({
          run: run.id,
          step: 'reply',
        });
        await until('three tries', async () => waits >= 3);
        await release();
        expect(await posting).toMatchObject({ state: 'done', ending: 'replied' });
      });
      expect(await leftBy(run)).toMatchObject({ texts: ['patient'], steps: ['reply=done'], endedEvents: 1 });
    });

    test('is transient if the attempt has no time left, so Temporal may retry', async () => {
      const run = await repliedRun(world, { reply: 'late' });
      await blocked(async (hasty, release) => {
        const posting = activitiesOf(world, run.execution, hasty, 300).postReply({ run: run.id, step: 'reply' });
        await expect(posting).rejects.toMatchObject({ type: 'Transient', nonRetryable: false });
        await release();
      });
      expect(await leftBy(run)).toMatchObject({ texts: [], steps: [], ending: null });
      expect(await acting(run).postReply({ run: run.id, step: 'reply' })).toMatchObject({ ending: 'replied' });
    });
  });
});
