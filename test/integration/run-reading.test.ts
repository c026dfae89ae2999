// The entries that a run reads beyond the newest: entries about the message that woke it, and the references of its tasks.
// A run never reads an entry that its company may not read.

import { RoomDraft, type Author } from '../../prisma/store/rooms/room-draft';
import { stageFile } from '../../prisma/store/files/files';
import { deprecateMemory, stageMemory } from '../../prisma/store/rooms/memory';
import { readRelevant, readRoom } from '../../prisma/store/runs/relevance';
import { roomView, type NewestOfRoom, type RoomView } from '../../prisma/store/runs/context-queries';
import { lockRoomForWrite } from '../../prisma/store/rooms/roster';
import { stageTask } from '../../prisma/store/rooms/tasks';
import { makePdf, readWaitingFiles } from '../support/sample-files';
import { createWorld, type TestAgent, type World } from '../support/world';

let world: World;
beforeEach(async () => {
  world = await createWorld({ modelUrl: 'http://127.0.0.1:1/v1' });
});
afterEach(() => world.close());

async function remember(author: Author, contents: readonly string[], visibility: 'shared' | 'private' = 'shared') {
  return world.db.transaction(async (tx) => {
    const draft = new RoomDraft(world.roomId);
    const ids = contents.map(
      (content) =>
        stageMemory(draft, world.roomId, { author, category: 'fact', tags: [], content, visibility, runId: null })
          .memoryId,
    );
    await draft.append(tx);
    return ids;
  });
}

async function addFile(name: string, bytes: Buffer, mediaType: 'text/plain' | 'application/pdf'): Promise<string> {
  const id = await world.db.transaction(async (tx) => {
    const draft = new RoomDraft(world.roomId);
    const { fileId } = await stageFile(tx, draft, { author: world.guest.person, name, mediaType, bytes });
    await draft.append(tx);
    return fileId;
  });
  await readWaitingFiles(world.db);
  return id;
}

async function sendTask(goal: string, refs: { memoryRefs?: string[]; attachments?: string[] }) {
  return world.db.transaction(async (tx) => {
    const room = await lockRoomForWrite(tx, world.roomId, world.host.id);
    const draft = new RoomDraft(world.roomId);
    const staged = await stageTask(tx, draft, room, {
      sender: world.host.person,
      to: 'scribe',
      goal,
      acceptanceCriteria: [],
      priority: 'normal',
      deadline: null,
      memoryRefs: [],
      attachments: [],
      ...refs,
      hop: 0,
      runId: null,
      refersTo: null,
    });
    await draft.append(tx);
    return staged;
  });
}

/** The room view of a run of this agent that this message woke. */
async function readFor(agent: TestAgent, messageId: string): Promise<RoomView> {
  const run = { roomId: world.roomId, agentId: agent.id, companyId: agent.companyId, messageId };
  return world.db.sqlTransaction((tx) => readRoom(tx, run));
}

const LINES = Array.from({ length: 130 }, (_, n) => `routine line number ${n} of the everyday business`);

test('older memory is found by rare words of the message, before entries that share only common words', async () => {
  const [osprey] = await remember(world.host.person, ['The osprey nests on pylon seven', 'Ospreys return in March']);
  await remember(world.host.person, LINES);
  const { messageId } = await world.post('@scribe in our everyday business, may we climb the pylon of the osprey?');
  const view = await readFor(world.scribe, messageId);
  expect(view.memory).toHaveLength(100);
  expect(view.memory.map((line) => line.id)).not.toContain(osprey);
  expect(view.found_memory[0]).toMatchObject({
    id: osprey,
    content: 'The osprey nests on pylon seven',
    company: 'Larkspur',
  });
  expect(view.found_memory[1]).toMatchObject({ content: 'Ospreys return in March' });
});

test('a room without older entries needs no search', async () => {
  await remember(world.host.person, LINES.slice(0, 20));
  const { messageId } = await world.post('@scribe routine line of the everyday business');
  expect(await readFor(world.scribe, messageId)).toMatchObject({ found_memory: [], passages: [], files: [] });
});

test('passages of files are found by the words of the message, with the fields for a citation', async () => {
  const file = await addFile('birds.pdf', makePdf(['contents', 'The osprey nests on pylon seven.']), 'application/pdf');
  const { messageId } = await world.post('@scribe where does the osprey nest?');
  const view = await readFor(world.scribe, messageId);
  expect(view.files).toMatchObject([{ id: file, name: 'birds.pdf', state: 'ready', company: 'Tamarack' }]);
  expect(view.passages).toEqual([
    {
      id: expect.stringMatching(/^psg_/),
      file,
      file_name: 'birds.pdf',
      company: 'Tamarack',
      author: 'Tom',
      at: expect.any(String),
      page: 2,
      line: null,
      text: 'The osprey nests on pylon seven.',
    },
  ]);
});

test('the references of an open task are read first: memory entries of any age, and files', async () => {
  const [referred] = await remember(world.host.person, ['Use the blue form']);
  await remember(world.host.person, LINES);
  const file = await addFile('form.txt', Buffer.from('Field one: name'), 'text/plain');
  await addFile('noise.txt', Buffer.from('form form form, please fill'), 'text/plain');
  const { messageId } = await sendTask('please fill the form', { memoryRefs: [referred!], attachments: [file] });
  const view = await readFor(world.scribe, messageId);
  expect(view.tasks).toMatchObject([
    {
      goal: 'please fill the form',
      memory_refs: [referred],
      attachments: [{ id: file, name: 'form.txt', state: 'ready' }],
    },
  ]);
  expect(view.found_memory[0]).toMatchObject({ id: referred });
  expect(view.passages[0]).toMatchObject({ file, text: 'Field one: name' });
});

test('a task refers only to memory and files of its room, and not to private entries of another company', async () => {
  const [hidden] = await remember(world.guest.person, ['secret'], 'private');
  for (const refs of [{ memoryRefs: [hidden!] }, { attachments: ['file_01h455vb4pex5vsknk084sn02q'] }]) {
    await expect(sendTask('look', refs)).rejects.toMatchObject({
      name: 'InvalidInput',
      pointer: expect.stringMatching(/^\/(memory_refs|attachments)\/0$/),
    });
  }
});

test('a run reads no private entry of another company, and those of its own company only if that is switched on', async () => {
  await remember(world.host.person, ['canary-of-larkspur sings at night'], 'private');
  await remember(world.guest.person, ['canary-of-tamarack sings at night'], 'private');
  await remember(world.host.person, LINES);
  const texts = { scribe: '', scout: '' };
  for (let n = 0; n < 10; n += 1) {
    const { messageId } = await world.post(
      '@scribe @scout which canary sings at night, and which of larkspur or tamarack?',
    );
    for (const agent of [world.scribe, world.scout]) {
      texts[agent.slug as 'scribe' | 'scout'] += JSON.stringify((await readFor(agent, messageId)).found_memory);
    }
    expect(texts.scribe).not.toContain('canary-of-tamarack');
    expect(texts.scout).not.toContain('canary-of-');
    if (n < 5) expect(texts.scribe).not.toContain('canary-of-larkspur');
    if (n !== 4) continue;
    await world.db.roomAgent.updateMany({ where: { agentId: world.scribe.id }, data: { privateMemory: true } });
  }
  expect(texts.scribe).toContain('canary-of-larkspur');
});

test('two entries with the same words of two companies in one room are both stored and read', async () => {
  const same = 'the key is under the mat';
  const ids = [...(await remember(world.host.person, [same])), ...(await remember(world.guest.person, [same]))];
  const { messageId } = await world.post('@scribe where is the key?');
  const { memory } = await readFor(world.scribe, messageId);
  expect(memory.map(({ id, company }) => ({ id, company }))).toEqual([
    { id: ids[0], company: 'Larkspur' },
    { id: ids[1], company: 'Tamarack' },
  ]);
});

test('a deprecated entry is not read: not as the newest, not by its words, not by reference', async () => {
  const [old] = await remember(world.host.person, ['The osprey nests on pylon six']);
  const { messageId } = await sendTask('ask the osprey', { memoryRefs: [old!] });
  await remember(world.host.person, LINES);
  expect((await readFor(world.scribe, messageId)).found_memory).toMatchObject([{ id: old }]);
  await world.db.transaction(async (tx) => {
    const draft = new RoomDraft(world.roomId);
    await deprecateMemory(tx, draft, world.host.person, old!);
    await draft.append(tx);
  });
  const view = await readFor(world.scribe, messageId);
  expect(JSON.stringify([view.memory, view.found_memory])).not.toContain('osprey');
});

test.each([undefined, null, ''])(
  'nothing is read without a room, an agent, a company or a message (%j)',
  async (none) => {
    const run = { roomId: world.roomId, agentId: world.scribe.id, companyId: world.host.id, messageId: 'msg_x' };
    for (const field of Object.keys(run)) {
      const incomplete = { ...run, [field]: none as unknown as string };
      expect(() => roomView(incomplete)).toThrow('for one run of one company');
      await expect(
        world.db.sqlTransaction((tx) => readRelevant(tx, incomplete, { memory: [] } as unknown as NewestOfRoom)),
      ).rejects.toThrow('for one run of one company');
    }
  },
);
