// The store's part of file parsing: which parser takes a file, and what happens to a file whose parser dies.

import { RoomDraft } from '../../prisma/store/rooms/room-draft';
import { finishFile, refuseFile, releaseFile, takeFile } from '../../prisma/store/files/parse-queue';
import { stageFile } from '../../prisma/store/files/files';
import { PARSE_LIMITS } from '../../worker/file-parser/limits';
import { readWaitingFiles } from '../support/sample-files';
import { createWorld, type World } from '../support/world';

let world: World;
beforeEach(async () => {
  world = await createWorld({ modelUrl: 'http://127.0.0.1:1/v1' });
});
afterEach(() => world.close());

async function addFile(text: string, mediaType: 'text/plain' | 'text/html' = 'text/plain'): Promise<string> {
  return world.db.transaction(async (tx) => {
    const draft = new RoomDraft(world.roomId);
    const file = { author: world.host.person, name: 'a.txt', mediaType, bytes: Buffer.from(text) };
    const { fileId } = await stageFile(tx, draft, file);
    await draft.append(tx);
    // The due time is rounded to a millisecond, which may still be in the future.
    await tx.$executeRaw`UPDATE files SET due_at = due_at - interval '1 second' WHERE id = ${fileId}`;
    return fileId;
  });
}

const PASSAGE = { text: 'words', page: null, line: 1, start: 0 };
const read = { passages: [PASSAGE], pages: null };

async function expireLeases(): Promise<void> {
  await world.db.$executeRaw`UPDATE files SET due_at = clock_timestamp() - interval '1 second'`;
}

const stateOf = (id: string) =>
  world.db.file.findUniqueOrThrow({ where: { id }, select: { state: true, code: true, attempts: true } });

test('concurrent parsers take different files, and no file is taken twice', async () => {
  const ids = await Promise.all([addFile('a'), addFile('b'), addFile('c')]);
  const taken = await Promise.all(Array.from({ length: 6 }, () => takeFile(world.db)));
  expect(taken.flatMap((file) => file?.id ?? []).sort()).toEqual(ids.sort());
});

test('another parser takes the file of a dead parser after the lease, and a late write of the first is refused', async () => {
  const id = await addFile('words');
  const first = await takeFile(world.db);
  expect(await takeFile(world.db)).toBeNull();
  await expireLeases();
  const second = await takeFile(world.db);
  expect(second).toMatchObject({ id, attempt: 2 });
  expect(await finishFile(world.db, first!, read)).toBe(false);
  expect(await refuseFile(world.db, first!, 'broken')).toBe(false);
  expect(await stateOf(id)).toMatchObject({ state: 'processing' });
  expect(await finishFile(world.db, second!, read)).toBe(true);
  expect(await stateOf(id)).toEqual({ state: 'ready', code: null, attempts: 2 });
  expect(await world.db.passage.count({ where: { fileId: id } })).toBe(1);
});

test('an attempt that died between two batches leaves no passages to the next attempt', async () => {
  const id = await addFile('words');
  const first = await takeFile(world.db);
  const many = Array.from({ length: 1_200 }, (_, n) => ({ ...PASSAGE, text: `old ${n}` }));
  // Another attempt takes the file during the write, so the second batch is refused.
  const writing = finishFile(world.db, first!, { passages: many, pages: null });
  await world.db
    .$executeRaw`UPDATE files SET attempts = 2, due_at = clock_timestamp() - interval '1 second' WHERE id = ${id}`;
  await writing;
  await world.db
    .$executeRaw`UPDATE files SET state = 'processing', parsed_at = NULL, due_at = clock_timestamp() - interval '1 second'`;
  const next = await takeFile(world.db);
  expect(await finishFile(world.db, next!, { passages: [PASSAGE, PASSAGE], pages: null })).toBe(true);
  const passages = await world.db.passage.findMany({ where: { fileId: id }, orderBy: { number: 'asc' } });
  expect(passages.map(({ number, text }) => ({ number, text }))).toEqual([
    { number: 1, text: 'words' },
    { number: 2, text: 'words' },
  ]);
});

test('a file is unreadable after three attempts without a result', async () => {
  const id = await addFile('words');
  for (const attempt of [1, 2, 3]) {
    expect(await takeFile(world.db)).toMatchObject({ attempt });
    await expireLeases();
  }
  expect(await takeFile(world.db)).toBeNull();
  expect(await stateOf(id)).toMatchObject({ state: 'unreadable', code: 'parser_failed' });
});

test('an attempt that its worker interrupted does not count', async () => {
  await addFile('words');
  for (let n = 0; n < 5; n += 1) {
    const file = await takeFile(world.db);
    expect(file).toMatchObject({ attempt: 1 });
    await releaseFile(world.db, file!, { interrupted: true });
  }
});

test('a file whose parsing takes too long is tried three times, because the machine may be busy', async () => {
  const id = await addFile('<div>'.repeat(300_000), 'text/html');
  await readWaitingFiles(world.db, { limits: { ...PARSE_LIMITS, timeMs: 400 } });
  expect(await stateOf(id)).toEqual({ state: 'unreadable', code: 'too_slow', attempts: 3 });
});

test('thousands of passages become visible together', async () => {
  const id = await addFile(`${'word '.repeat(200)}\n\n`.repeat(1_300));
  await readWaitingFiles(world.db);
  expect(await stateOf(id)).toMatchObject({ state: 'ready' });
  const numbers = await world.db.passage.findMany({ where: { fileId: id }, orderBy: { number: 'asc' } });
  expect(numbers.map(({ number }) => number)).toEqual(Array.from({ length: 1_300 }, (_, n) => n + 1));
});
