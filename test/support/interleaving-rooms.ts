// Creates rooms for random programs: one room for each program, many rooms at a time, all in one database.

import { RoomDraft, type Author } from '../../prisma/store/rooms/room-draft';
import { newId } from '../../prisma/store/db/ids';
import { stageMessage } from '../../prisma/store/rooms/messages';
import { lockRoomForWrite } from '../../prisma/store/rooms/roster';
import { stageTask } from '../../prisma/store/rooms/tasks';
import type { Database } from '../../prisma/store/db/database';

/** The room of one program: two companies, three agents, a message for each of two agents, and a task. */
export interface ProgramRoom {
  readonly roomId: string;
  readonly companies: readonly { id: string; person: Author }[];
  readonly agents: readonly (Author & { readonly keyId: string })[];
  readonly wakes: readonly { agentId: string; messageId: string }[];
  readonly taskId: string;
}

/** Small enough that some programs use all of it. */
export const ALLOWANCE = 5;

/** Creates the rooms of `count` programs with a few statements. */
export async function openProgramRooms(db: Database, count: number): Promise<ProgramRoom[]> {
  const slugs = ['ana', 'ben', 'clerk'];
  const drafts = Array.from({ length: count }, () => {
    const companies = [newId('co'), newId('co')].map((id) => ({
      id,
      person: { kind: 'person', id: newId('key'), name: 'Ada', companyId: id } as const,
    }));
    const agents = slugs.map((slug, index) => {
      const companyId = companies[index % 2]?.id ?? '';
      return { kind: 'agent', id: newId('agent'), name: slug, companyId, slug, keyId: newId('mk') } as const;
    });
    return { roomId: newId('room'), companies, agents };
  });
  const ids = drafts.flatMap((draft) => draft.companies.map(({ id }) => id));
  await db.company.createMany({ data: ids.map((id) => ({ id, slug: id.replace('_', '-'), name: 'A company' })) });
  await db.room.createMany({
    data: drafts.map(({ roomId, companies }) => {
      const hostCompanyId = companies[0]?.id ?? '';
      return { id: roomId, slug: 'room', name: 'Room', hostCompanyId, onCrash: 'stop', runAllowance: ALLOWANCE };
    }),
  });
  await db.roomMember.createMany({
    data: drafts.flatMap(({ roomId, companies }) =>
      companies.map(({ id }, index) => ({ roomId, companyId: id, role: index === 0 ? 'host' : 'guest' })),
    ),
  });
  const agents = drafts.flatMap((draft) => draft.agents.map((agent) => ({ ...agent, roomId: draft.roomId })));
  await db.modelKey.createMany({
    data: agents.map(({ keyId, companyId }) => ({
      id: keyId,
      companyId,
      name: 'a key',
      provider: 'openai_compatible',
      baseUrl: 'http://127.0.0.1:9/v1',
      ownerSupplied: false,
      sealedSecret: 'never opened',
    })),
  });
  await db.agent.createMany({
    data: agents.map(({ id, companyId, slug, keyId }) => ({
      id,
      companyId,
      slug,
      name: slug,
      alwaysOn: slug !== 'clerk',
      instructions: 'Be brief.',
      model: 'test-model',
      modelKeyId: keyId,
    })),
  });
  await db.roomAgent.createMany({
    data: agents.map(({ roomId, id }) => ({
      roomId,
      agentId: id,
      rightReply: 'go',
      rightMemory: 'go',
      rightTaskUpdate: 'go',
      rightTaskSend: 'go',
    })),
  });
  const programRooms: ProgramRoom[] = [];
  for (const draft of drafts) programRooms.push({ ...draft, ...(await writeWakes(db, draft)) });
  for (const programRoom of programRooms) await postponeWakes(db, programRoom);
  return programRooms;
}

/** Makes the wakes of this room due, so that the dispatcher takes them. */
export async function makeWakesDue(db: Database, { roomId }: ProgramRoom): Promise<void> {
  await db.$executeRaw`UPDATE wakes SET due_at = clock_timestamp() - interval '1 second' WHERE room_id = ${roomId}`;
}

/** Moves the wakes of this room a year ahead, so that the dispatcher skips them during the next program. */
export async function postponeWakes(db: Database, { roomId }: ProgramRoom): Promise<void> {
  await db.$executeRaw`UPDATE wakes SET due_at = clock_timestamp() + interval '1 year' WHERE room_id = ${roomId}`;
}

/** The fields of a message that a person posts and that refers to no other message. */
export const FIRST_POST = { hop: 0, runId: null, refersTo: null };
const UNSPECIFIED = {
  acceptanceCriteria: [],
  priority: 'normal',
  deadline: null,
  memoryRefs: [],
  attachments: [],
} as const;

async function writeWakes(
  db: Database,
  { roomId, companies, agents }: Pick<ProgramRoom, 'roomId' | 'companies' | 'agents'>,
): Promise<Pick<ProgramRoom, 'wakes' | 'taskId'>> {
  return db.transaction(async (tx) => {
    const author = (companies[0] as (typeof companies)[number]).person;
    const room = await lockRoomForWrite(tx, roomId, author.companyId);
    const draft = new RoomDraft(roomId);
    const texts = ['@ana please', '@ben please'];
    const messageIds: string[] = [];
    for (const text of texts) {
      messageIds.push((await stageMessage(tx, draft, room, { author, text, mentions: [], ...FIRST_POST })).messageId);
    }
    const task = { sender: author, to: 'ana', goal: 'a goal', ...UNSPECIFIED, ...FIRST_POST };
    const { messageId, taskId } = await stageTask(tx, draft, room, task);
    await draft.append(tx);
    const [ana = '', ben = ''] = agents.map(({ id }) => id);
    const wakes = [ana, ben, ana].map((agentId, index) => ({
      agentId,
      messageId: [...messageIds, messageId][index] ?? '',
    }));
    return { wakes, taskId };
  });
}
