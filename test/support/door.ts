// The door of a world: the API over real HTTP on a world's database, with a key of each kind for both of its companies.

import { randomBytes } from 'node:crypto';
import pino from 'pino';
import type { Streams } from '../../api/middleware/event-streams';
import { createSecretBox } from '../../workflows/policy/secret-box';
import { createKey, type KeyToCreate } from '../../prisma/store/access/keys';
import type { Database } from '../../prisma/store/db/database';
import { createClient, serveApi, type ApiClient } from './api';
import type { World } from './world';

/** Whoever has a key, and its id. */
export interface Holder extends ApiClient {
  readonly keyId: string;
}

interface CompanyKeys {
  readonly admin: Holder;
  readonly member: Holder;
  readonly service: Holder;
  readonly agent: Holder;
}

export interface Door {
  readonly url: string;
  readonly host: CompanyKeys;
  readonly guest: CompanyKeys;
  close(): Promise<void>;
}

/** Opens the door of a world, on its own pool or the given one, with streams that poll or the given ones. */
export async function openDoor(world: World, db: Database = world.db, streams?: Streams): Promise<Door> {
  const served = await serveApi({
    db,
    secretBox: createSecretBox([{ id: 'test', key: randomBytes(32) }]),
    providers: new Map([['openai', 'https://api.openai.com/v1']]),
    allowedModelHosts: [],
    prices: new Map(),
    requestsPerMinute: 1_000_000,
    log: pino({ level: 'silent' }),
    ...(streams && { streams }),
  });
  const holderOf = async (key: KeyToCreate): Promise<Holder> => {
    const created = await world.db.transaction((tx) => createKey(tx, key));
    return { ...createClient(served.url, created.token), keyId: created.key.id };
  };
  const keysOf = async (companyId: string, agentId: string): Promise<CompanyKeys> => ({
    admin: await holderOf({ kind: 'person', role: 'admin', name: 'Ada', companyId }),
    member: await holderOf({ kind: 'person', role: 'member', name: 'Mel', companyId }),
    service: await holderOf({ kind: 'service', name: 'Pipeline', companyId }),
    agent: await holderOf({ kind: 'agent', agentId, name: 'its own', companyId }),
  });
  return {
    url: served.url,
    host: await keysOf(world.host.id, world.scribe.id),
    guest: await keysOf(world.guest.id, world.scout.id),
    close: served.close,
  };
}
