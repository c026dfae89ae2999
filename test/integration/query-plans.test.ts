// No read of a room scans a whole table, however large the room is. The tests check the plans of Postgres for the sent
// statements, over tables that are large enough for a choice of plans.

import type pg from 'pg';
import { renderContext } from '../../activities/context/render';
import { listRoomEvents } from '../../prisma/store/rooms/events';
import { listMemory, type MemoryFilter } from '../../prisma/store/rooms/memory-reads';
import { searchMemory } from '../../prisma/store/rooms/memory-search';
import { listMessages } from '../../prisma/store/rooms/messages';
import { searchPassages } from '../../prisma/store/files/passages';
import { claimRequest, endRequest } from '../../prisma/store/runs/model-requests';
import {
  findExecutionsWithoutRun,
  findOpenRunsOf,
  leaseOrphans,
  takeDueRuns,
} from '../../prisma/store/runs/reconciliation';
import { readRelevant } from '../../prisma/store/runs/relevance';
import { roomView, type NewestOfRoom } from '../../prisma/store/runs/context-queries';
import { deliverWakes, oldestWaits, takeUnclaimedWakes } from '../../prisma/store/runs/wakes';
import { wakeWorkflowId } from '../../workflows/contract';
import { fillRoom, fillRuns } from '../support/large-room';
import { activitiesOf, answered, deliveredWake, openRun } from '../support/store-runs';
import { createWorld, type World } from '../support/world';

const LARGE =
  /Seq Scan on (room_events|messages|memory_entries|passages|wakes|agent_run_locks|runs|run_steps|model_requests)\b/;
const PAST_RUNS = 20_000;

let world: World;
let client: pg.PoolClient;
const plans: string[] = [];
beforeAll(async () => {
  world = await createWorld({ modelUrl: 'http://127.0.0.1:1/v1', poolSize: 1 });
  client = await world.database.pool.connect();
  await client.query("SET statement_timeout = '60s'");
  await client.query("SET transaction_timeout = '60s'").catch(() => undefined);
  for (let n = 0; n < 5; n += 1) {
    const id = `room_other${String(n).padStart(8, '0')}`;
    await client.query(
      `INSERT INTO rooms (id, slug, name, host_company_id) VALUES ('${id}', 'other-${n}', 'Other', '${world.host.id}')`,
    );
    await fillRoom(client, { id, companyId: world.host.id }, { messages: 500, memory: 500, passages: 500 });
  }
  await fillRoom(
    client,
    { id: world.roomId, companyId: world.host.id },
    { messages: 20_000, memory: 20_000, passages: 20_000 },
  );
  const agentId = world.scribe.id;
  await fillRuns(client, { id: world.roomId, companyId: world.host.id, agentId }, PAST_RUNS);
  client.on('notice', ({ message }) => void plans.push(message ?? ''));
  await client.query("LOAD 'auto_explain'");
  await client.query('SET auto_explain.log_min_duration = 0');
  await client.query('SET auto_explain.log_nested_statements = on');
  await client.query('SET client_min_messages = log');
  client.release();
});
afterAll(() => world.close());

/** The plans of all statements that `work` sends. */
async function plansOf(work: () => Promise<unknown>): Promise<string> {
  plans.length = 0;
  await work();
  expect(plans.length).toBeGreaterThan(0);
  return plans.join('\n');
}

const NO_FILTER: MemoryFilter = {
  category: undefined,
  tag: undefined,
  author: undefined,
  since: undefined,
  until: undefined,
  deprecated: false,
};
const asked = (text: string) => ({ text, limitMs: 5_000 });
const page = { after: null, limit: 50 };
const viewer = () => ({ companyId: world.host.id, seesPrivate: true });

test.each<[string, () => Promise<unknown>]>([
  ['the feed', () => listRoomEvents(world.db, viewer(), world.roomId, { after: 10_000n, limit: 50 })],
  ['messages', () => listMessages(world.db, world.roomId, { ...page, order: 'desc' })],
  ['memory', () => listMemory(world.db, viewer(), world.roomId, NO_FILTER, { ...page, order: 'desc' })],
  [
    'memory of an unused category',
    () =>
      listMemory(world.db, viewer(), world.roomId, { ...NO_FILTER, category: 'decision' }, { ...page, order: 'desc' }),
  ],
  [
    'memory by time',
    () => listMemory(world.db, viewer(), world.roomId, { ...NO_FILTER, since: new Date() }, { ...page, order: 'asc' }),
  ],
  ...['the', 'urgently', 'winter', 'item7919', 'nowhere', 'item', 'tower -winter'].flatMap(
    (text): [string, () => Promise<unknown>][] => [
      [`memory with "${text}"`, () => searchMemory(world.db, viewer(), world.roomId, asked(text), NO_FILTER, page)],
      [`passages with "${text}"`, () => searchPassages(world.db, world.roomId, asked(text), undefined, page)],
    ],
  ),
])('a read of %s uses indexes', async (_, work) => {
  expect(await plansOf(work)).not.toMatch(LARGE);
});

test('the context of a run uses indexes', async () => {
  const { messageId } = await world.post('@scribe is the foundation of part 4711 inspected before winter?');
  const { roomId, scribe, host } = world;
  const run = { roomId, agentId: scribe.id, companyId: host.id, messageId };
  const reading = await plansOf(() =>
    world.db.sqlTransaction(async (tx) => {
      const [row] = await tx.$queryRaw<{ view: NewestOfRoom }[]>`SELECT (${roomView(run)}) AS view`;
      const found = await readRelevant(tx, run, row!.view);
      expect(found.found_memory.length).toBeGreaterThan(5);
      expect(found.passages).toHaveLength(12);
    }),
  );
  expect(reading).not.toMatch(LARGE);
  expect(reading).toContain('memory_hits');
});

test('a run from delivery to reply uses indexes', async () => {
  const planText = await plansOf(async () => {
    const run = await openRun(world, { text: 'is the foundation of part 4711 inspected before winter?' });
    const claim = await claimRequest(world.db, run.execution, run.id, renderContext);
    if (claim.kind !== 'send') throw new Error('no request could be claimed');
    expect(claim.context.user).toContain('part 4711');
    await endRequest(world.db, run.execution, run.id, claim.number, answered({ reply: 'it is' }), claim.target);
    const reply = await activitiesOf(world, run.execution).postReply({ run: run.id, step: 'reply' });
    expect(reply).toEqual({ state: 'done', ending: 'replied' });
  });
  expect(planText).not.toMatch(LARGE);
  for (const part of ['agent_run_locks', 'newest', 'run_steps', 'new_messages']) expect(planText).toContain(part);
});

test('the queries of dispatchers and reconcilers use indexes', async () => {
  const { agentId, messageId } = await deliveredWake(world);
  const executions = [{ workflowId: wakeWorkflowId(agentId, messageId), temporalRunId: 'none' }];
  const planTexts = await plansOf(async () => {
    await deliverWakes(world.db, 50, 20);
    await oldestWaits(world.db);
    await takeUnclaimedWakes(world.db, 100, 20);
    await takeDueRuns(world.db, 100, { open: 20, decided: 60, parked: 3_600 });
    await leaseOrphans(world.db, executions, 30, 20);
    await findOpenRunsOf(world.db, executions);
    await findExecutionsWithoutRun(world.db, executions);
  });
  expect(planTexts).not.toMatch(LARGE);
});

test('the check finds a scan of a whole table', async () => {
  expect(await plansOf(() => world.database.pool.query("SELECT * FROM messages WHERE text LIKE '%x%'"))).toMatch(LARGE);
});
