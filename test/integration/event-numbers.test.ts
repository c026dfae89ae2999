// Room events are numbered without gaps, so a reader that pages by number misses none.

import { type Client } from '@temporalio/client';
import { listRoomEvents } from '../../prisma/store/rooms/events';
import { RoomDraft } from '../../prisma/store/rooms/room-draft';
import { stageMessage } from '../../prisma/store/rooms/messages';
import { lockRoomForWrite } from '../../prisma/store/rooms/roster';
import { dispatchOnce, type DispatcherDeps } from '../../worker/dispatcher';
import { wakeWorkflowId } from '../../workflows/contract';
import { holdTransaction, untilWaiting } from '../support/store-runs';
import { createWorld, type World } from '../support/world';

const MODEL_URL = 'http://127.0.0.1:9/v1';
let world: World;

beforeAll(async () => {
  world = await createWorld({ modelUrl: MODEL_URL });
});
afterAll(() => world.close());
afterEach(async () => {
  // Acknowledges the starts that are still due, so that the next test does not start them.
  await world.db.$executeRaw`UPDATE wakes SET started_at = now() WHERE state = 'delivered' AND started_at IS NULL`;
});

type Start = (workflowId: string, options: Record<string, unknown>) => void;

/** A dispatcher whose Temporal is the function `start`, with the workflow ids that it started. */
function dispatcher(start: Start = () => undefined, of = world) {
  const started: string[] = [];
  const failed: string[] = [];
  const workflow = {
    start: async (type: string, options: { workflowId: string } & Record<string, unknown>) => {
      await Promise.resolve();
      start(options.workflowId, { type, ...options });
      started.push(options.workflowId);
      return { firstExecutionRunId: 'run-id' };
    },
  };
  const client = { workflow } as unknown as Client;
  const deps = { db: of.db, client, taskQueue: 'queue', onStartFailed: (wake: { id: string }) => failed.push(wake.id) };
  return {
    started,
    failed,
    once: (more: Pick<DispatcherDeps, 'acknowledged'> = {}) => dispatchOnce({ ...deps, ...more }),
  };
}

const idOf = (messageId: string, agentId = world.scribe.id): string => wakeWorkflowId(agentId, messageId);

describe('a reader that pages by number', () => {
  const viewer = () => ({ companyId: world.host.id, agentId: null, seesPrivate: true });
  const readAfter = (after: bigint) => listRoomEvents(world.db, viewer(), world.roomId, { after, limit: 200 });
  const last = async () => (await world.db.room.findUniqueOrThrow({ where: { id: world.roomId } })).lastSeq;

  test('never skips a late commit: the second writer gets its number only after the first has committed', async () => {
    const start = await last();
    let first = '';
    const writer = await holdTransaction(world.db, async (tx) => {
      const room = await lockRoomForWrite(tx, world.roomId, world.host.id);
      const draft = new RoomDraft(world.roomId);
      const message = {
        author: world.host.person,
        text: '@scribe n',
        mentions: [],
        hop: 0,
        runId: null,
        refersTo: null,
      };
      first = (await stageMessage(tx, draft, room, message)).messageId;
      await draft.append(tx);
    });
    const second = world.post('@scribe n + 1');
    await untilWaiting(world.db);
    const one = dispatcher();
    expect(await readAfter(start)).toEqual([]);
    expect(await one.once()).toMatchObject({ started: 0 });
    await writer.release();
    const both = [first, (await second).messageId];
    expect((await readAfter(start)).map((event) => [event.seq, (event.resource['data'] as { id: string }).id])).toEqual(
      both.map((messageId, index) => [start + BigInt(index + 1), messageId]),
    );
    await one.once();
    expect(one.started.sort()).toEqual(both.map((messageId) => idOf(messageId)).sort());
  });

  test('sees every number once and in order during twenty concurrent writes', async () => {
    const start = await last();
    const seen: bigint[] = [];
    let writing = true;
    const reading = (async () => {
      let after = start;
      for (let more = true; more;) {
        more = writing;
        for (const { seq } of await readAfter(after)) seen.push((after = seq));
      }
    })();
    await world.postMany(20, (n) => `no mention ${n}`);
    writing = false;
    await reading;
    expect(seen).toEqual(Array.from({ length: 20 }, (_, n) => start + BigInt(n + 1)));
  });
});
