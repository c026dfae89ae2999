// The company's feed tells what becomes of its held actions: at each change, as they are now, and to nobody else.

import type { Json } from '../support/api';
import { openDoor, type Door } from '../support/door';
import { openEvents } from '../support/event-source';
import { decide, heldOf, heldRun, letExpire } from '../support/holds';
import { createWorld, type World } from '../support/world';
import { expireHeldActions } from '../../prisma/store/decisions';

const HOLD_SEND = { task_send: 'hold' } as const;

let world: World;
let door: Door;

beforeEach(async () => {
  world = await createWorld({ modelUrl: 'http://127.0.0.1:9/v1' });
  door = await openDoor(world);
});
afterEach(async () => {
  await door.close();
  await world.close();
});

async function read(by: { get(path: string): Promise<{ status: number; body: Json }> }, cursor = '', limit = 200) {
  const { status, body } = await by.get(`/v1/feed?limit=${limit}${cursor && `&cursor=${cursor}`}`);
  if (status !== 200) throw new Error(`the feed answers ${status}`);
  return { data: body.data as Json[], next: body.next_cursor as string };
}
const heldIn = (data: Json[]): Json[] => data.filter((event) => event.type === 'held_action');

test('each change is told once, with the whole action as it is now, wherever a page is cut', async () => {
  const run = await heldRun(world, HOLD_SEND);
  const first = await read(door.host.member);
  expect(heldIn(first.data)).toMatchObject([
    {
      room: world.roomId,
      company: world.host.id,
      author: null,
      data: { state: 'held', step: 'task_send:1', run: run.id },
    },
  ]);
  expect((await decide(world, door.host.member, run.id, 'task_send:1', 'approve')).status).toBe(200);
  const since = await read(door.host.member, first.next);
  expect(since.data).toMatchObject([{ type: 'held_action', data: { state: 'approved', decision: 'approve' } }]);
  expect((await read(door.host.member, since.next)).data).toEqual([]);

  const byOnes: Json[] = [];
  for (let cursor = ''; ;) {
    const { data, next } = await read(door.host.member, cursor, 1);
    if (data.length === 0) break;
    byOnes.push(...data);
    cursor = next;
  }
  expect(byOnes.map((event) => event.id).sort()).toEqual(
    (await read(door.host.member)).data.map((event) => event.id).sort(),
  );
});

test('an expiry and a run that ends otherwise are told too', async () => {
  const late = await heldRun(world, HOLD_SEND);
  const { next } = await read(door.host.member);
  await letExpire(world, late.id, 'task_send:1');
  await expireHeldActions(world.db, 10);
  expect(heldIn((await read(door.host.member, next)).data)).toMatchObject([
    { data: { state: 'expired', decision: null } },
  ]);
});

test('another company’s feed has none of it, and an agent’s key sees its own agent’s', async () => {
  await heldRun(world, HOLD_SEND);
  expect(heldIn((await read(door.guest.member)).data)).toEqual([]);
  expect(heldIn((await read(door.host.agent)).data)).toHaveLength(1);
});

test('numbers are given in commit order: what commits late is not passed over', async () => {
  const [early, late] = [await heldRun(world, HOLD_SEND), await heldRun(world, HOLD_SEND)];
  const held = [...(await heldOf(world, early.id)).values(), ...(await heldOf(world, late.id)).values()];
  const { next } = await read(door.host.member);
  let release = (): void => {};
  const gate = new Promise<void>((resolve) => (release = resolve));
  const change = (id: string) => world.db.$executeRaw`UPDATE held_actions SET state = 'superseded' WHERE id = ${id}`;
  let began = (): void => {};
  const holding = new Promise<void>((resolve) => (began = resolve));
  const slow = world.db.$transaction(async (tx) => {
    await tx.$executeRaw`UPDATE held_actions SET state = 'superseded' WHERE id = ${held[0]?.id}`;
    began();
    await gate;
  });
  await holding;
  const quick = change(held[1]?.id as string);
  const quickly = quick.then((count) => count);
  expect(heldIn((await read(door.host.member, next)).data)).toEqual([]);
  release();
  await Promise.all([slow, quickly]);
  expect(heldIn((await read(door.host.member, next)).data).map((event) => event.id)).toEqual(held.map(({ id }) => id));
});

test('a stream brings it within its next look', async () => {
  const { next } = await read(door.host.member);
  const { body } = await door.host.admin.post('/v1/keys', { kind: 'service', name: 'reader' });
  const stream = await openEvents(`${door.url}/v1/feed?cursor=${next}`, body.token);
  await heldRun(world, HOLD_SEND);
  for (let count = 1; ; count += 1) {
    const event = (await stream.received(count))[count - 1];
    if (event?.data.type === 'held_action') break;
  }
  stream.close();
});
