// Departures from a room: a removed agent, a member that leaves, a closed room. Written content remains, open runs end
// visibly, and a concurrent claim or step either is first or is refused.

import { claimMessage } from '../../../prisma/store/runs/claims';
import { closeRoom, leaveRoom, removeFromRoster } from '../../../prisma/store/lifecycle/departure';
import type { Tx } from '../../../prisma/store/db/transaction';
import { deliverWakes } from '../../../prisma/store/runs/wakes';
import { expectGaplessRoom } from '../../support/ledger';
import { eventsOf, LIMITS, newExecution, repliedRun, activitiesOf } from '../../support/store-runs';
import { createWorld, type World } from '../../support/world';
import { repetitions } from '../../support/test-runs';

let world: World;

beforeEach(async () => {
  world = await createWorld({ modelUrl: 'http://127.0.0.1:9/v1' });
});
afterEach(() => world.close());

const ways: readonly {
  way: string;
  why: string;
  reason: string;
  events: readonly string[];
  leave: (tx: Tx) => Promise<unknown>;
}[] = [
  {
    way: 'an agent is removed',
    why: 'agent_removed',
    reason: 'not_a_member',
    events: ['agent_removed', 'run_ended'],
    leave: (tx) => removeFromRoster(tx, world.roomId, world.guest.person, world.scout.id),
  },
  {
    way: 'the host removes an agent',
    why: 'agent_removed',
    reason: 'not_a_member',
    events: ['agent_removed', 'run_ended'],
    leave: (tx) => removeFromRoster(tx, world.roomId, world.host.person, world.scout.id),
  },
  {
    way: 'a company leaves',
    why: 'member_left',
    reason: 'not_a_member',
    events: ['agent_removed', 'run_ended', 'member_left'],
    leave: (tx) => leaveRoom(tx, world.roomId, world.guest.person, world.guest.id),
  },
  {
    way: 'the host closes the room',
    why: 'room_closed',
    reason: 'room_closed',
    events: ['run_ended', 'room_closed'],
    leave: (tx) => closeRoom(tx, world.roomId, world.host.person),
  },
];

async function claimed(): Promise<string> {
  const { messageId } = await world.post('@scout go');
  await deliverWakes(world.db, 10);
  const execution = newExecution(world.scout.id, messageId);
  const outcome = await claimMessage(world.db, execution, { agentId: world.scout.id, messageId }, LIMITS);
  if (outcome.kind !== 'granted') throw new Error(`not granted: ${outcome.kind}`);
  return outcome.runId;
}

describe.each(ways)('when $way', ({ why, reason, events, leave }) => {
  test('its open runs are cancelled, delivered and pending wakes end visibly, and the feed has the events in order', async () => {
    const open = await claimed();
    const delivered = await world.post('@scout and this');
    await deliverWakes(world.db, 10);
    const pending = await world.post('@scout and that');
    const before = (await eventsOf(world)).length;
    await world.db.transaction(leave);

    expect(await world.db.run.findUniqueOrThrow({ where: { id: open } })).toMatchObject({
      ending: 'cancelled',
      cancelReason: why,
      context: null,
    });
    expect((await eventsOf(world)).slice(before).map((event) => event.type)).toEqual(events);

    await deliverWakes(world.db, 10);
    const wake = await world.db.wake.findFirstOrThrow({ where: { messageId: pending.messageId } });
    expect(wake).toMatchObject({ state: 'suppressed', reason });
    const execution = newExecution(world.scout.id, delivered.messageId);
    const asked = { agentId: world.scout.id, messageId: delivered.messageId };
    expect(await claimMessage(world.db, execution, asked, LIMITS)).toMatchObject({
      kind: 'closed',
      ending: 'cancelled',
    });
    await expectGaplessRoom(world.db, world.roomId);
  });

  test('a concurrent claim is first or is closed: no run remains open', async () => {
    for (let round = 0; round < repetitions(1, 6); round += 1) {
      const messageIds = [];
      for (let n = 0; n < 3; n += 1) messageIds.push((await world.post(`@scout ${n}`)).messageId);
      await deliverWakes(world.db, 10);
      const claims = messageIds.map((messageId) => {
        const wake = { agentId: world.scout.id, messageId };
        return claimMessage(world.db, newExecution(world.scout.id, messageId), wake, LIMITS);
      });
      const leaving = world.db.transaction(leave);
      await Promise.all([...claims, leaving]);
      expect(await world.db.run.count({ where: { agentId: world.scout.id, state: 'open' } })).toBe(0);
      await world.close();
      world = await createWorld({ modelUrl: 'http://127.0.0.1:9/v1' });
    }
  });
});

test('a step of a run whose room was closed meanwhile has no effect', async () => {
  const run = await repliedRun(world, { reply: 'too late' });
  await world.db.transaction((tx) => closeRoom(tx, world.roomId, world.host.person));
  const posting = activitiesOf(world, run.execution).postReply({ run: run.id, step: 'reply' });
  expect(await posting).toEqual({ state: 'not_reached', ending: 'cancelled' });
  expect(await world.db.message.count({ where: { runId: run.id } })).toBe(0);
});
