// A room with agents of two companies in a new database, for tests below the API. Companies, keys and rosters are inserted
// directly, in SQL because one call of Prisma costs 4 ms of CPU; messages use the same draft as the API.

import { randomBytes } from 'node:crypto';
import type { Database } from '../../prisma/client';
import type { ModelProtocol } from '../../workflows/policy/model-endpoint';
import { createSecretBox, type SecretBox } from '../../workflows/policy/secret-box';
import type { Author } from '../../prisma/store/rooms/room-draft';
import { RoomDraft } from '../../prisma/store/rooms/room-draft';
import { newId } from '../../prisma/store/db/ids';
import { stageMessage, type StagedMessage } from '../../prisma/store/rooms/messages';
import { modelKeyBinding } from '../../prisma/store/model-keys/model-keys';
import { addToRoster, lockRoomForWrite, PRESETS } from '../../prisma/store/rooms/roster';
import { stageTask } from '../../prisma/store/rooms/tasks';
import type { OnCrash, Rights } from '../../workflows/contract';
import { openReusedDatabase } from './reused-databases';

export const MASTER_KEYS = `test:${randomBytes(32).toString('base64')}`;

export interface TestAgent {
  readonly id: string;
  readonly slug: string;
  readonly name: string;
  readonly companyId: string;
}

export interface World {
  readonly url: string;
  readonly db: Database;
  readonly database: Database;
  readonly secretBox: SecretBox;
  readonly roomId: string;
  readonly host: { readonly id: string; readonly person: Author };
  readonly guest: { readonly id: string; readonly person: Author };
  /** Two agents: `scribe` of the host, `scout` of the guest. */
  readonly scribe: TestAgent;
  readonly scout: TestAgent;
  addAgent(options: {
    slug: string;
    company?: 'host' | 'guest';
    rights?: Rights;
    modelUrl?: string;
    protocol?: ModelProtocol;
    ownerSupplied?: boolean;
  }): Promise<TestAgent>;
  post(text: string, options?: { author?: Author; hop?: number }): Promise<StagedMessage>;
  /** Posts `count` messages one after the other: posted at once, they would wait for one room and a few connections. */
  postMany(count: number, text: (n: number) => string): Promise<StagedMessage[]>;
  sendTask(to: string, goal: string): Promise<StagedMessage & { taskId: string }>;
  close(): Promise<void>;
}

export interface WorldOptions {
  readonly modelUrl: string;
  readonly onCrash?: OnCrash;
  readonly rights?: Rights;
  readonly poolSize?: number;
  /** The time after which Postgres ends a transaction. Longer in tests where many transactions wait for one room. */
  readonly transactionMs?: number;
  readonly runAllowance?: number;
  readonly masterKeys?: string;
}

/** Creates a world in an empty database. */
export async function createWorld(options: WorldOptions): Promise<World> {
  const { transactionMs = 9_500 } = options;
  const { url, database, release } = await openReusedDatabase({
    poolSize: options.poolSize ?? 8,
    lockTimeoutMs: transactionMs * 0.8,
    statementTimeoutMs: transactionMs * 0.9,
    transactionTimeoutMs: transactionMs,
  });
  const db = database;
  const secretBox = createSecretBox(parseKey(options.masterKeys ?? MASTER_KEYS));
  const hostId = await createCompany(db, 'larkspur', 'Larkspur');
  const guestId = await createCompany(db, 'tamarack', 'Tamarack');
  const roomId = newId('room');
  await db.$executeRaw`
    INSERT INTO rooms (id, slug, name, host_company_id, on_crash, run_allowance)
    VALUES (${roomId}, 'launch', 'Launch', ${hostId}, ${options.onCrash ?? 'stop'}, ${options.runAllowance ?? 1_000})`;
  await db.$executeRaw`
    INSERT INTO room_members (room_id, company_id, role)
    VALUES (${roomId}, ${hostId}, 'host'), (${roomId}, ${guestId}, 'guest')`;
  const companies = { host: hostId, guest: guestId };

  const addAgent: World['addAgent'] = async ({ slug, company = 'host', rights, modelUrl, ...key }) => {
    const companyId = companies[company];
    const keyId = newId('mk');
    const baseUrl = modelUrl ?? options.modelUrl;
    const sealed = secretBox.seal('sk-test-key', modelKeyBinding(keyId, baseUrl));
    await db.$executeRaw`
      INSERT INTO model_keys (id, company_id, name, provider, base_url, owner_supplied, sealed_secret)
      VALUES (${keyId}, ${companyId}, ${`key of ${slug}`}, ${key.protocol ?? 'openai_compatible'}, ${baseUrl},
              ${key.ownerSupplied ?? false}, ${sealed})`;
    const agent = { id: newId('agent'), slug, name: slug.charAt(0).toUpperCase() + slug.slice(1), companyId };
    await db.$executeRaw`
      INSERT INTO agents (id, company_id, slug, name, always_on, instructions, model, model_key_id)
      VALUES (${agent.id}, ${companyId}, ${slug}, ${agent.name}, true, 'Be brief.', 'test-model', ${keyId})`;
    await db.transaction((tx) =>
      addToRoster(tx, { id: roomId }, agent, rights ?? options.rights ?? PRESETS.autonomous),
    );
    return agent;
  };
  const scribe = await addAgent({ slug: 'scribe' });
  const scout = await addAgent({ slug: 'scout', company: 'guest' });
  const host = { id: hostId, person: personOf(hostId, 'Ada') };
  const guest = { id: guestId, person: personOf(guestId, 'Tom') };

  const post: World['post'] = (text, { author = host.person, hop = 0 } = {}) =>
    db.transaction(async (tx) => {
      const room = await lockRoomForWrite(tx, roomId, author.companyId);
      const draft = new RoomDraft(roomId);
      const message = { author, text, mentions: [], hop, runId: null, refersTo: null };
      const staged = await stageMessage(tx, draft, room, message);
      await draft.append(tx);
      return staged;
    });

  return {
    url,
    db,
    database,
    secretBox,
    roomId,
    host,
    guest,
    scribe,
    scout,
    addAgent,
    post,
    postMany: async (count, text) => {
      const posted: StagedMessage[] = [];
      for (let n = 0; n < count; n += 1) posted.push(await post(text(n)));
      return posted;
    },
    sendTask: (to, goal) =>
      db.transaction(async (tx) => {
        const room = await lockRoomForWrite(tx, roomId, hostId);
        const draft = new RoomDraft(roomId);
        const staged = await stageTask(tx, draft, room, {
          sender: host.person,
          to,
          goal,
          acceptanceCriteria: [],
          priority: 'normal',
          deadline: null,
          memoryRefs: [],
          attachments: [],
          hop: 0,
          runId: null,
          refersTo: null,
        });
        await draft.append(tx);
        return staged;
      }),
    close: release,
  };
}

async function createCompany(db: Database, slug: string, name: string): Promise<string> {
  const id = newId('co');
  await db.$executeRaw`INSERT INTO companies (id, slug, name) VALUES (${id}, ${slug}, ${name})`;
  return id;
}

function personOf(companyId: string, name: string): Author {
  return { kind: 'person', id: newId('key'), name, companyId };
}

function parseKey(text: string) {
  const [id = '', base64 = ''] = text.split(':');
  return [{ id, key: Buffer.from(base64, 'base64') }];
}
