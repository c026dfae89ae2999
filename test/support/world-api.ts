// Serves the API over real HTTP on the database of a world, with a key of each kind for both companies.

import { randomBytes } from 'node:crypto';
import pino from 'pino';
import type { Streams } from '../../api/middleware/event-streams';
import { createSecretBox } from '../../workflows/policy/secret-box';
import { createKey, type KeyToCreate } from '../../prisma/store/access/keys';
import type { Database } from '../../prisma/store/db/database';
import { createClient, serveApi, type ApiClient } from './api';
import type { World } from './world';

/** An API client and the id of its key. */
export interface KeyClient extends ApiClient {
  readonly keyId: string;
}

interface CompanyKeys {
  readonly admin: KeyClient;
  readonly member: KeyClient;
  readonly service: KeyClient;
  readonly agent: KeyClient;
}

export interface WorldApi {
  readonly url: string;
  readonly host: CompanyKeys;
  readonly guest: CompanyKeys;
  close(): Promise<void>;
}

/** Serves the API of a world. `db` defaults to the world's own pool, `streams` to streams that poll. */
export async function openWorldApi(world: World, db: Database = world.db, streams?: Streams): Promise<WorldApi> {
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
  const clientOf = async (key: KeyToCreate): Promise<KeyClient> => {
    const created = await world.db.transaction((tx) => createKey(tx, key));
    return { ...createClient(served.url, created.token), keyId: created.key.id };
  };
  const keysOf = async (companyId: string, agentId: string): Promise<CompanyKeys> => ({
    admin: await clientOf({ kind: 'person', role: 'admin', name: 'Ada', companyId }),
    member: await clientOf({ kind: 'person', role: 'member', name: 'Mel', companyId }),
    service: await clientOf({ kind: 'service', name: 'Pipeline', companyId }),
    agent: await clientOf({ kind: 'agent', agentId, name: 'its own', companyId }),
  });
  return {
    url: served.url,
    host: await keysOf(world.host.id, world.scribe.id),
    guest: await keysOf(world.guest.id, world.scout.id),
    close: served.close,
  };
}
