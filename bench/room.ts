// A room of one company and one always-on agent, and the two ways in which the bench writes to it: through the API, and in
// batches straight through the store where only what comes after is measured.

import { connectDatabase } from '../prisma/client';
import { createSecretBox, parseMasterKeys } from '../workflows/policy/secret-box';
import { RoomDraft, type Author } from '../prisma/store/rooms/room-draft';
import { newId } from '../prisma/store/db/ids';
import { createKey } from '../prisma/store/access/keys';
import { stageMessage } from '../prisma/store/rooms/messages';
import { modelKeyBinding } from '../prisma/store/model-keys/model-keys';
import { addToRoster, lockRoomForWrite, PRESETS } from '../prisma/store/rooms/roster';
import type { Database } from '../prisma/store/db/database';
import type { Ground } from './ground';
import { createPoster, type Poster } from './poster';

/** More than any bench can use up. */
const RUN_ALLOWANCE = 1_000_000;

const WAKING_TEXT = '@scribe, is the plan for Tuesday complete?';

export interface BenchRoom {
  readonly id: string;
  /** Posts one message that wakes the agent, as a client would; returns the message's id. */
  postOne(): Promise<string>;
  /** Posts this many at once, in one transaction, through the store. */
  postBatch(count: number): Promise<void>;
  /** Opens more rooms of the same company, without agents; returns their ids. */
  openMore(count: number): Promise<string[]>;
  /** What posts through the API, with a key of its own. Null where the side has no API. */
  createPoster(): Promise<Poster | null>;
}

/** Makes the company, the room and its agent. `apiUrl`: null where messages are posted through the store only. */
export async function createRoom(
  ground: Ground,
  database: string,
  apiUrl: string | null,
  company = 'larkspur',
): Promise<BenchRoom> {
  const connected = await connectDatabase(ground.urlOf(database), {
    poolSize: 4,
    lockTimeoutMs: 5_000,
    statementTimeoutMs: 10_000,
    transactionTimeoutMs: 15_000,
    applicationName: 'durable-room-bench',
  });
  ground.atEnd(() => connected.close());
  const db = connected;
  const { companyId, roomId } = await seed(db, ground, company);
  const author: Author = { kind: 'person', id: newId('key'), name: 'Ada', companyId };

  const post = (count: number): Promise<string> =>
    db.transaction(async (tx) => {
      const room = await lockRoomForWrite(tx, roomId, companyId);
      const draft = new RoomDraft(roomId);
      let last = '';
      for (let n = 0; n < count; n += 1) {
        const message = { author, text: WAKING_TEXT, mentions: [], hop: 0, runId: null, refersTo: null };
        last = (await stageMessage(tx, draft, room, message)).messageId;
      }
      await draft.append(tx);
      return last;
    });

  const poster = async (): Promise<Poster | null> => {
    if (apiUrl === null) return null;
    const { token } = await db.transaction((tx) =>
      createKey(tx, { kind: 'person', role: 'member', name: 'Ada', companyId }),
    );
    const made = createPoster(apiUrl, roomId, token);
    ground.atEnd(async () => made.close());
    return made;
  };
  const own = await poster();
  return {
    id: roomId,
    postOne: () => (own === null ? post(1) : own.post(WAKING_TEXT)),
    postBatch: async (count) => void (await post(count)),
    openMore: async (count) => {
      const ids = Array.from({ length: count }, () => newId('room'));
      await db.room.createMany({
        data: ids.map((id) => ({ id, slug: id.replace('_', '-'), name: id, hostCompanyId: companyId })),
      });
      await db.roomMember.createMany({ data: ids.map((id) => ({ roomId: id, companyId, role: 'host' })) });
      return ids;
    },
    createPoster: poster,
  };
}

async function seed(db: Database, ground: Ground, company: string): Promise<{ companyId: string; roomId: string }> {
  const companyId = newId('co');
  await db.company.create({ data: { id: companyId, slug: company, name: company } });
  const roomId = newId('room');
  await db.room.create({
    data: {
      id: roomId,
      slug: `launch-${company}`,
      name: 'Launch',
      hostCompanyId: companyId,
      runAllowance: RUN_ALLOWANCE,
    },
  });
  await db.roomMember.create({ data: { roomId, companyId, role: 'host' } });
  const keyId = newId('mk');
  const baseUrl = ground.model.url;
  const secretBox = createSecretBox(parseMasterKeys(ground.masterKeys));
  await db.modelKey.create({
    data: {
      id: keyId,
      companyId,
      name: 'scripted',
      provider: 'openai_compatible',
      baseUrl,
      ownerSupplied: false,
      sealedSecret: secretBox.seal('sk-bench', modelKeyBinding(keyId, baseUrl)),
    },
  });
  const agent = { id: newId('agent'), slug: 'scribe', name: 'Scribe' };
  await db.agent.create({
    data: {
      ...agent,
      companyId,
      alwaysOn: true,
      instructions: 'Be brief.',
      model: 'scripted',
      modelKeyId: keyId,
    },
  });
  await db.transaction((tx) => addToRoster(tx, { id: roomId }, agent, PRESETS.autonomous));
  return { companyId, roomId };
}
