// The rooms of one way, in a database of its own: one room, one agent and one message a job, so that jobs hold up nobody
// else and everything a job did is everything its agent wrote in its room.

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

/** What is in the room by this job's agent. */
export interface Counts {
  readonly posts: number;
  readonly memory: number;
  readonly tasks: number;
}

/** The newest run of a message, as the ledger has it. */
export interface RunFacts {
  readonly ending: string;
  readonly code: string | null;
  readonly closedAt: Date;
}

export interface JobRooms {
  readonly db: Database;
  /** A room with an agent of its own, which in ways 4 and 5 is always on. */
  open(): Promise<JobRoom>;
  /** A person's message for the room's agent; in ways 4 and 5 it wakes it. Returns the message's id. */
  post(room: JobRoom, text: string): Promise<string>;
  count(room: JobRoom): Promise<Counts>;
  /** Null while the message has no closed run. */
  findRun(messageId: string): Promise<RunFacts | null>;
  /** From the message to the last thing its agent wrote after it, in milliseconds of Postgres's clock. */
  measureSpan(room: JobRoom, messageId: string): Promise<number>;
  close(): Promise<void>;
}

/** Slug of the agent that tasks are sent to. Nobody wakes it. */
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
