// Random programs of claims, requests, steps, endings, departures and posts, in sequence and concurrently, from several
// Temporal runs over several pools: in every order, no effect happens twice and every run gets its ending.
//
//   INTERLEAVING_STEPS  the number of commands; 5,000 by default in the full run, 500 in `npm test`
//   INTERLEAVING_SEED   the first seed; a failure prints its seed, and the path to its program
//   INTERLEAVING_PATH   runs only the program at that path

import fc from 'fast-check';
import { connectDatabase, type Database } from '../../../prisma/client';
import { deliverWakes } from '../../../prisma/store/runs/wakes';
import { createTestDatabase, type TestDatabase } from '../../support/database';
import { openProgramRooms, postponeWakes, makeWakesDue, type ProgramRoom } from '../../support/interleaving-rooms';
import { violationsOf, Watch } from '../../support/interleaving-invariants';
import { COMMAND_WEIGHTS, Player, type Command, type CommandKind } from '../../support/interleavings';
import { waitForNothingHeld } from '../../support/ledger';
import { repetitions } from '../../support/test-runs';

const STEPS = Number(process.env['INTERLEAVING_STEPS'] ?? repetitions(500, 5_000));
const SEED = Number(process.env['INTERLEAVING_SEED'] ?? Math.floor(Math.random() * 2 ** 31));
const PATH = process.env['INTERLEAVING_PATH'];

/** The number of programs per seed. A path identifies one of them. */
const PROGRAMS = 10;
const SHORTEST = 30;
const LONGEST = 90;
/** With this many commands, every common ending occurs. */
const ENOUGH_STEPS = 2_000;
/** The time limit per command: a command takes a few milliseconds, but many on a busy machine. */
const STEP_MS = 120;

const kind = fc.oneof(
  ...Object.entries(COMMAND_WEIGHTS).map(([name, weight]) => ({
    arbitrary: fc.constant(name as CommandKind),
    weight: weight * 10,
  })),
);
const command: fc.Arbitrary<Command> = fc.record({
  kind,
  wake: fc.nat(2),
  execution: fc.oneof({ arbitrary: fc.constant(0), weight: 4 }, { arbitrary: fc.nat(2), weight: 1 }),
  pool: fc.nat(1),
  variant: fc.nat(11),
  together: fc.boolean(),
});
const program = fc.record({
  /** True: the wakes are delivered at the start. False: a command delivers them. */
  delivered: fc.oneof({ arbitrary: fc.constant(true), weight: 4 }, { arbitrary: fc.constant(false), weight: 1 }),
  commands: fc.array(command, { minLength: SHORTEST, maxLength: LONGEST, size: 'max' }),
});

let base: TestDatabase;
const databases: Database[] = [];
const grounds: ProgramRoom[] = [];
let played = 0;
const endings = new Map<string, number>();

beforeAll(async () => {
  base = await createTestDatabase({ migrated: true });
  for (const name of ['one', 'two']) {
    databases.push(
      await connectDatabase(base.url, {
        poolSize: 6,
        // Only a deadlock causes a long wait. This limit reports it as an error.
        lockTimeoutMs: 15_000,
        statementTimeoutMs: 20_000,
        transactionTimeoutMs: 30_000,
        applicationName: `durable-room-test-${name}`,
        checkLockOrder: true,
      }),
    );
  }
});
afterAll(async () => {
  for (const database of databases) await database.close();
  await base.drop();
});

async function nextGround(): Promise<ProgramRoom> {
  if (grounds.length === 0) grounds.push(...(await openProgramRooms(databases[0] as Database, 40)));
  return grounds.pop() as ProgramRoom;
}

async function play({ delivered, commands }: { delivered: boolean; commands: readonly Command[] }): Promise<void> {
  const pools = databases;
  const db = pools[0] as (typeof pools)[number];
  const ground = await nextGround();
  await makeWakesDue(db, ground);
  if (delivered) await deliverWakes(db, 10);
  const player = new Player(ground, pools);
  const watch = new Watch(db, ground.roomId);
  const changed: string[] = [];
  for (const batch of inBatches(commands)) {
    await Promise.all(batch.map((each) => player.play(each)));
    changed.push(...(await watch.check()));
  }
  await postponeWakes(db, ground);
  played += commands.length;
  const found = [...changed, ...(await violationsOf(db, ground, player.trace))];
  if (found.length > 0) throw new Error(`${ground.roomId}:\n  ${found.join('\n  ')}`);
  await waitForNothingHeld(db);
  for (const { ending } of await db.run.findMany({ where: { roomId: ground.roomId }, select: { ending: true } })) {
    endings.set(ending ?? 'open', (endings.get(ending ?? 'open') ?? 0) + 1);
  }
}

function inBatches(commands: readonly Command[]): Command[][] {
  const batches: Command[][] = [];
  for (const each of commands) {
    const batch = batches.at(-1);
    if (each.together && batch) batch.push(each);
    else batches.push([each]);
  }
  return batches;
}

async function playPrograms(seed: number): Promise<void> {
  const outcome = await fc.check(fc.asyncProperty(program, play), {
    seed,
    numRuns: PROGRAMS,
    // No shrinking: two runs of one program differ in timing, so a shorter program that passes proves nothing.
    endOnFailure: true,
    ...(PATH === undefined ? {} : { path: PATH }),
  });
  if (!outcome.failed) return;
  const again = `INTERLEAVING_SEED=${seed} INTERLEAVING_PATH=${outcome.counterexamplePath}`;
  const commands = outcome.counterexample?.[0].commands.map((each) => JSON.stringify(each)).join('\n');
  const reason = outcome.errorInstance instanceof Error ? outcome.errorInstance.message : 'failed';
  throw new Error(`${again}\n${reason}\n${commands}`);
}

test(
  `${STEPS} commands in programs of up to ${LONGEST}, from seed ${SEED}: no effect twice, no effect after an ending`,
  async () => {
    for (let round = 0; played < STEPS; round += 1) {
      await playPrograms(SEED + round);
      if (PATH !== undefined) break;
    }
    const [row] = await (databases[0] as Database).$queryRaw<{ deadlocks: number }[]>`
      SELECT deadlocks::int FROM pg_stat_database WHERE datname = current_database()`;
    const ends = [...endings].map(([ending, count]) => `${count} ${ending}`).join(', ');
    console.log(`${played} commands from seed ${SEED}; runs: ${ends}`);
    // All transactions take their locks in one order (lock-order.ts).
    expect(row?.deadlocks).toBe(0);
    // Programs without effects would also pass. A few programs may lack some endings, so this needs enough steps.
    if (PATH !== undefined || STEPS < ENOUGH_STEPS) return;
    for (const ending of ['replied', 'cancelled', 'lost']) expect(endings.get(ending)).toBeGreaterThan(0);
  },
  60_000 + STEPS * STEP_MS,
);

test('the check finds a second effect, a second grant and a second request', async () => {
  const pools = databases;
  const db = pools[0] as (typeof pools)[number];
  const ground = await nextGround();
  await makeWakesDue(db, ground);
  await deliverWakes(db, 10);
  await postponeWakes(db, ground);
  const player = new Player(ground, pools);
  const watch = new Watch(db, ground.roomId);
  const next = { kind: 'next', wake: 0, execution: 0, pool: 0, variant: 0, together: false } as const;
  // A claim, a request, the reply and five steps.
  for (let step = 0; step < 8; step += 1) await player.play(next);
  expect(await watch.check()).toEqual([]);
  expect(await violationsOf(db, ground, player.trace)).toEqual([]);
  const runId = player.trace.runs.get(0) as string;
  expect(await db.run.findUniqueOrThrow({ where: { id: runId } })).toMatchObject({ ending: 'replied' });

  await db.$executeRaw`
    INSERT INTO messages (id, room_id, seq, kind, company_id, author_kind, author_id, author_name, text, hop, run_id)
    SELECT 'msg_twice', room_id, 1000, kind, company_id, author_kind, author_id, author_name, text, hop, run_id
    FROM messages WHERE run_id = ${runId} AND kind = 'text'`;
  expect(await violationsOf(db, ground, player.trace)).toEqual([
    expect.stringMatching(/the room has \[.*msg_twice.*\], the ledger has/),
    expect.stringContaining('a message follows its ending'),
  ]);
  expect(await watch.check()).toEqual([expect.stringContaining('the closed run of')]);
  await db.message.delete({ where: { id: 'msg_twice' } });

  player.trace.sends.push(`${runId} 1`);
  expect(await violationsOf(db, ground, player.trace)).toEqual([
    expect.stringContaining('given out twice'),
    expect.stringContaining('2 requests were given out, 1 are recorded'),
  ]);
  player.trace.sends.pop();
  player.trace.granted.get(0)?.add('another');
  expect(await violationsOf(db, ground, player.trace)).toEqual([expect.stringContaining('was granted to')]);
});
