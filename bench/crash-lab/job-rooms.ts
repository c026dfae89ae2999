// The rooms of one way, in its own database. Each job has its own room, agent and message, so jobs do not wait for each other,
// and the effects of a job are exactly what its agent wrote in its room.

import { connectDatabase } from '../../prisma/client';
import { createSecretBox, parseMasterKeys } from '../../workflows/policy/secret-box';
import { RoomDraft, type Author } from '../../prisma/store/rooms/room-draft';
import { newId } from '../../prisma/store/db/ids';
import { stageMessage } from '../../prisma/store/rooms/messages';
import { modelKeyBinding } from '../../prisma/store/model-keys/model-keys';
import { addToRoster, lockRoomForWrite, PRESETS } from '../../prisma/store/rooms/roster';
import type { Database } from '../../prisma/store/db/database';
import { RECORDS_TABLE } from './lab-activities';
import type { LabJob } from './messages';
import { isRoomWay, type Way } from './ways';

export type JobRoom = Omit<LabJob, 'messageId'> & { readonly slug: string };

/** The effects of the job's agent in the room. */
export interface Counts {
  readonly posts: number;
  readonly memory: number;
  readonly tasks: number;
}

/** The newest run of a message, from the ledger. */
export interface RunFacts {
  readonly ending: string;
  readonly code: string | null;
  readonly closedAt: Date;
}

export interface JobRooms {
  readonly db: Database;
  /** Creates a room with its own agent, which is always on in ways 4 and 5. */
  open(): Promise<JobRoom>;
  /** Posts a person's message to the room's agent, which wakes it in ways 4 and 5. Returns the message's id. */
  post(room: JobRoom, text: string): Promise<string>;
  count(room: JobRoom): Promise<Counts>;
  /** Null until the message has a closed run. */
  findRun(messageId: string): Promise<RunFacts | null>;
  /** From the message to the last effect of its agent, in milliseconds of Postgres' clock. */
  measureSpan(room: JobRoom, messageId: string): Promise<number>;
  close(): Promise<void>;
}

/** Slug of the agent that receives the tasks. It is not always on, so it is never woken. */
export const CLERK = 'clerk';

export async function openJobRooms(
  way: Way,
  options: { url: string; masterKeys: string; modelUrl: string },
): Promise<JobRooms> {
  const database = await connectDatabase(options.url, {
    poolSize: 6,
    lockTimeoutMs: 5_000,
    statementTimeoutMs: 10_000,
    transactionTimeoutMs: 15_000,
    applicationName: 'durable-room-lab',
  });
  const db = database;
  if (way === 'record') await db.prisma.$executeRawUnsafe(RECORDS_TABLE);
  const companyId = newId('co');
  await db.company.create({ data: { id: companyId, slug: 'larkspur', name: 'Larkspur' } });
  const modelKeyId = newId('mk');
  await db.modelKey.create({
    data: {
      id: modelKeyId,
      companyId,
      name: 'scripted',
      provider: 'openai_compatible',
      baseUrl: options.modelUrl,
      ownerSupplied: false,
      sealedSecret: createSecretBox(parseMasterKeys(options.masterKeys)).seal(
        'sk-lab',
        modelKeyBinding(modelKeyId, options.modelUrl),
      ),
    },
  });
  const clerk = { id: newId('agent'), slug: CLERK, name: 'Clerk' };
  await db.agent.create({ data: { ...clerk, companyId, alwaysOn: false, instructions: 'File it.' } });
  const person: Author = { kind: 'person', id: newId('key'), name: 'Ada', companyId };
  let opened = 0;

  return {
    db,
    open: async () => {
      opened += 1;
      const name = `Scribe ${opened}`;
      const agent = { id: newId('agent'), slug: `scribe-${opened}`, name };
      const roomId = newId('room');
      await db.room.create({
        data: {
          id: roomId,
          slug: `job-${opened}`,
          name: `Job ${opened}`,
          hostCompanyId: companyId,
          onCrash: way === 'resume' ? 'resume' : 'stop',
        },
      });
      await db.roomMember.create({ data: { roomId, companyId, role: 'host' } });
      await db.agent.create({
        data: {
          ...agent,
          companyId,
          alwaysOn: isRoomWay(way),
          instructions: 'Be brief.',
          model: 'scripted',
          modelKeyId,
        },
      });
      await db.transaction(async (tx) => {
        await addToRoster(tx, { id: roomId }, agent, PRESETS.autonomous);
        await addToRoster(tx, { id: roomId }, clerk, PRESETS.autonomous);
      });
      return { roomId, companyId, agentId: agent.id, agentName: name, slug: agent.slug };
    },
    post: ({ roomId, slug }, text) =>
      db.transaction(async (tx) => {
        const room = await lockRoomForWrite(tx, roomId, companyId);
        const draft = new RoomDraft(roomId);
        const message = { author: person, text: `@${slug} ${text}`, mentions: [], hop: 0, runId: null, refersTo: null };
        const { messageId } = await stageMessage(tx, draft, room, message);
        await draft.append(tx);
        return messageId;
      }),
    count: async ({ roomId, agentId }) => {
      const [counts] = await db.$queryRaw<Counts[]>`
        SELECT (SELECT count(*)::int FROM messages
                WHERE room_id = ${roomId} AND author_id = ${agentId} AND kind = 'text') AS posts,
               (SELECT count(*)::int FROM memory_entries WHERE room_id = ${roomId} AND author_id = ${agentId}) AS memory,
               (SELECT count(*)::int FROM tasks WHERE room_id = ${roomId} AND sender_id = ${agentId}) AS tasks`;
      return counts as Counts;
    },
    findRun: async (messageId) => {
      const run = await db.run.findFirst({ where: { messageId, state: 'closed' } });
      if (!run || run.ending === null || run.closedAt === null) return null;
      return { ending: run.ending, code: run.code, closedAt: run.closedAt };
    },
    measureSpan: async ({ roomId, agentId }, messageId) => {
      const [row] = await db.$queryRaw<{ ms: number }[]>`
        SELECT extract(epoch FROM max(e.at) - (SELECT created_at FROM messages WHERE id = ${messageId}))::float8 * 1000
                 AS ms
        FROM room_events e WHERE e.room_id = ${roomId} AND e.author_id = ${agentId}`;
      return row?.ms ?? Number.NaN;
    },
    close: () => database.close(),
  };
}
