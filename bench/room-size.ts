// Compares reads of a large room with reads of a small one: the context of a run, the feed and search. No read may get slower
// as the room grows.

import { createServer } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import type { AddressInfo } from 'node:net';
import { randomBytes } from 'node:crypto';
import pino from 'pino';
import { createApp } from '../api/app';
import { renderContext } from '../activities/context/render';
import { connectDatabase, type Database } from '../prisma/client';
import { createSecretBox } from '../workflows/policy/secret-box';
import { newId } from '../prisma/store/db/ids';
import { createKey } from '../prisma/store/access/keys';
import { readRoom } from '../prisma/store/runs/relevance';
import { addToRoster, PRESETS } from '../prisma/store/rooms/roster';
import { fillRoom, type RoomSize } from '../test/support/large-room';
import type { BenchEnvironment } from './environment';
import type { Progress } from './progress';
import { round, spreadOf, type Spread } from './statistics';

const DATABASE = 'bench_room_size';
const SMALL: RoomSize = { messages: 1_000, memory: 1_000, passages: 1_000 };

export interface RoomSizes {
  readonly small: RoomSize;
  readonly large: RoomSize;
  readonly fill_seconds: number;
  readonly reads: readonly {
    readonly read: string;
    readonly small: Spread;
    readonly large: Spread;
    readonly ratio: number;
  }[];
}

interface Room {
  readonly id: string;
  readonly companyId: string;
  readonly agentId: string;
  readonly size: RoomSize;
}

/** Fills both rooms, then reads them alternately, `rounds` times each. */
export async function measureRoomSize(
  environment: BenchEnvironment,
  large: RoomSize,
  rounds: number,
  progress: Progress,
): Promise<RoomSizes> {
  progress.begin(`filling a room with ${large.messages} messages and ${large.memory} memory entries`);
  await environment.createDatabase(DATABASE);
  const database = await connectDatabase(environment.urlOf(DATABASE), {
    poolSize: 4,
    lockTimeoutMs: 5_000,
    statementTimeoutMs: 10_000,
    transactionTimeoutMs: 15_000,
    applicationName: 'durable-room-bench',
  });
  environment.atEnd(() => database.close());
  const companyId = newId('co');
  await database.prisma.company.create({ data: { id: companyId, slug: 'larkspur', name: 'Larkspur' } });
  const startedAt = Date.now();
  const rooms = {
    small: await makeRoom(environment, database, companyId, 'small', SMALL),
    large: await makeRoom(environment, database, companyId, 'large', large),
  };
  const fillSeconds = (Date.now() - startedAt) / 1_000;
  const get = await serve(environment, database, companyId);
  const reads: Readonly<Record<string, (room: Room) => Promise<void>>> = {
    'context of a run': (room) => readForRun(database, room),
    'newest page of the feed': (room) => get(`/v1/rooms/${room.id}/events?after=${room.size.messages - 50}`),
    'memory, a word in every entry': (room) => get(`/v1/rooms/${room.id}/memory?q=inspection`),
    'memory, a word in one of thirty': (room) => get(`/v1/rooms/${room.id}/memory?q=urgently`),
    // Pages of three entries, because the small room has only three matches.
    'memory, a word in one of 300': (room) => get(`/v1/rooms/${room.id}/memory?q=winter&limit=3`),
    'memory, a word in one entry': (room) => get(`/v1/rooms/${room.id}/memory?q=item7919`),
    'passages, a word in one of 300': (room) => get(`/v1/rooms/${room.id}/passages?q=winter&limit=3`),
  };
  progress.begin('reading both rooms alternately');
  // Time for Postgres to write what filling left in memory.
  await sleep(2_000);
  const measured = [];
  for (const [read, run] of Object.entries(reads)) {
    progress.at(read);
    const times = { small: [] as number[], large: [] as number[] };
    for (let n = -10; n < rounds; n += 1) {
      for (const name of ['small', 'large'] as const) {
        const from = performance.now();
        await run(rooms[name]);
        // The first ten rounds are warm-up.
        if (n >= 0) times[name].push(performance.now() - from);
      }
    }
    const [small, big] = [spreadOf(times.small), spreadOf(times.large)];
    measured.push({ read, small, large: big, ratio: round(big.p50 / small.p50) });
  }
  return { small: SMALL, large, fill_seconds: round(fillSeconds), reads: measured };
}

async function makeRoom(
  environment: BenchEnvironment,
  db: Database,
  companyId: string,
  slug: string,
  size: RoomSize,
): Promise<Room> {
  const id = newId('room');
  await db.room.create({ data: { id, slug, name: slug, hostCompanyId: companyId } });
  await db.roomMember.create({ data: { roomId: id, companyId, role: 'host' } });
  const agent = { id: newId('agent'), slug: `scribe-${slug}`, name: `Scribe ${slug}` };
  await db.agent.create({ data: { ...agent, companyId, alwaysOn: false, instructions: 'Be brief.' } });
  await db.transaction((tx) => addToRoster(tx, { id }, agent, PRESETS.autonomous));
  const client = await environment.connect(DATABASE);
  await client.query('SET synchronous_commit = off');
  await fillRoom(client, { id, companyId }, size);
  return { id, companyId, agentId: agent.id, size };
}

// Reads and renders the room as the first request of a run does.
async function readForRun(db: Database, room: Room): Promise<void> {
  const middle = await db.message.findFirstOrThrow({ where: { roomId: room.id, seq: room.size.messages } });
  const run = { roomId: room.id, agentId: room.agentId, companyId: room.companyId, messageId: middle.id };
  renderContext(await db.sqlTransaction((tx) => readRoom(tx, run)));
}

async function serve(
  environment: BenchEnvironment,
  db: Database,
  companyId: string,
): Promise<(path: string) => Promise<void>> {
  const { token } = await db.transaction((tx) => createKey(tx, { kind: 'service', name: 'reader', companyId }));
  const app = createApp({
    db,
    secretBox: createSecretBox([{ id: 'bench', key: randomBytes(32) }]),
    providers: new Map(),
    allowedModelHosts: [],
    prices: new Map(),
    requestsPerMinute: 1_000_000,
    fileLimitBytes: 1,
    searchLimitMs: 2_000,
    log: pino({ level: 'silent' }),
  });
  const server = createServer(app);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  environment.atEnd(async () => {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  });
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return async (path) => {
    const answer = await fetch(url + path, { headers: { authorization: `Bearer ${token}` } });
    await answer.arrayBuffer();
    if (answer.status !== 200) throw new Error(`${path} answered ${answer.status}`);
  };
}
