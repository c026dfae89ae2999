// A room with one company and one always-on agent. The bench posts to it through the API, or in batches through the store when
// the API is not part of the measurement.

import { connectDatabase } from '../prisma/client';
import { createSecretBox, parseMasterKeys } from '../workflows/policy/secret-box';
import { RoomDraft, type Author } from '../prisma/store/rooms/room-draft';
import { newId } from '../prisma/store/db/ids';
import { createKey } from '../prisma/store/access/keys';
import { stageMessage } from '../prisma/store/rooms/messages';
import { modelKeyBinding } from '../prisma/store/model-keys/model-keys';
import { addToRoster, lockRoomForWrite, PRESETS } from '../prisma/store/rooms/roster';
import type { Database } from '../prisma/store/db/database';
import type { BenchEnvironment } from './environment';
import { createPoster, type Poster } from './poster';

/** More runs than any bench uses. */
const RUN_ALLOWANCE = 1_000_000;

const WAKING_TEXT = '@scribe, is the plan for Tuesday complete?';

export interface BenchRoom {
  readonly id: string;
  /** Posts one message that wakes the agent, as a client does; returns the message's id. */
  postOne(): Promise<string>;
  /** Posts this many at once, in one transaction, through the store. */
  postBatch(count: number): Promise<void>;
  /** Opens more rooms of the same company, without agents; returns their ids. */
  openMore(count: number): Promise<string[]>;
  /** Creates a client of the API with its own key. Null if the side has no API. */
  createPoster(): Promise<Poster | null>;
}

/** Creates the company, the room and its agent. `apiUrl` is null if messages are posted through the store only. */
export async function createRoom(
  environment: BenchEnvironment,
  database: string,
  apiUrl: string | null,
  company = 'larkspur',
): Promise<BenchRoom> {
  const connected = await connectDatabase(environment.urlOf(database), {
    poolSize: 4,
    lockTimeoutMs: 5_000,
    statementTimeoutMs: 10_000,
    transactionTimeoutMs: 15_000,
    applicationName: 'durable-room-bench',
  });
  environment.atEnd(() => connected.close());
  const db = connected;
  const { companyId, roomId } = await seed(db, environment, company);
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
    environment.atEnd(async () => made.close());
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

async function seed(
  db: Database,
  environment: BenchEnvironment,
  company: string,
): Promise<{ companyId: string; roomId: string }> {
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
  const baseUrl = environment.model.url;
  const secretBox = createSecretBox(parseMasterKeys(environment.masterKeys));
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
