// With the lock-order check, a database refuses a transaction that takes a lock out of order. Without it, nothing is checked.

import { connectDatabase } from '../../prisma/client';
import { declareLock } from '../../prisma/store/db/lock-order';
import { RoomDraft } from '../../prisma/store/rooms/room-draft';
import { lockRoomForWrite } from '../../prisma/store/rooms/roster';
import type { SqlTx } from '../../prisma/store/db/transaction';
import { createWorld, type World } from '../support/world';

let world: World;

beforeAll(async () => {
  world = await createWorld({ modelUrl: 'http://127.0.0.1:9' });
});
afterAll(() => world.close());

async function appendThenLock(tx: SqlTx): Promise<void> {
  const draft = new RoomDraft(world.roomId);
  draft.addEvent({ type: 'room_paused', author: world.host.person, subjectId: world.roomId, data: {} });
  await draft.append(tx);
  await lockRoomForWrite(tx, world.roomId, world.host.id);
}

test('a membership lock after the room lock fails both kinds of transaction, which write nothing', async () => {
  const message = 'the lock "membership" is taken after "room"';
  await expect(world.db.transaction(appendThenLock)).rejects.toThrow(message);
  await expect(world.db.sqlTransaction(appendThenLock)).rejects.toThrow(message);
  expect(await world.db.roomEvent.count({ where: { roomId: world.roomId, type: 'room_paused' } })).toBe(0);
});

test('each transaction begins without locks', async () => {
  await world.db.transaction(async (tx) => declareLock(tx, 'room'));
  await world.db.transaction(async (tx) => declareLock(tx, 'membership'));
});

test('a database without the check takes locks in any order', async () => {
  const unchecked = await connectDatabase(world.url, {
    poolSize: 1,
    lockTimeoutMs: 5_000,
    statementTimeoutMs: 5_000,
    transactionTimeoutMs: 5_000,
    applicationName: 'durable-room-test',
  });
  try {
    await unchecked.sqlTransaction(appendThenLock);
  } finally {
    await unchecked.close();
  }
  expect(await world.db.roomEvent.count({ where: { roomId: world.roomId, type: 'room_paused' } })).toBe(1);
});
