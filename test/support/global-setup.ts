// One PostgreSQL and one Temporal dev server for the whole run of jest, both real and both stopped with it.
// Each test file takes a database and a task queue of its own on them.

import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { openDataFolder } from '../../worker/embedded/data-folder';
import { startServices, type Services } from '../../worker/embedded/services';
import { ensureTemplate } from './database';

/** Kept between runs, so that the Temporal CLI is fetched once. */
const CLI_CACHE = join(__dirname, '..', '..', '.durable-room', 'cache');

export interface SharedServers {
  readonly services: Services;
  readonly dispose: () => Promise<void>;
}

declare global {
  var durableRoomServers: SharedServers | undefined;
}

export default async function setUp(): Promise<void> {
  const path = await mkdtemp(join(tmpdir(), 'durable-room-tests-'));
  const folder = await openDataFolder(path);
  const services = await startServices({
    dataFolder: folder,
    cliCacheDir: CLI_CACHE,
    temporalCliPath: process.env['TEMPORAL_CLI_PATH'],
    durability: 'test',
    temporalHeadless: true,
    log: (line) => console.log(`  ${line}`),
  });
  process.env['TEST_DATABASE_URL_BASE'] = services.databaseUrl;
  process.env['TEST_TEMPORAL_ADDRESS'] = services.temporal.address;
  process.env['TEST_BUNDLE_FOLDER'] = await mkdtemp(join(path, 'bundles-'));
  await ensureTemplate();
  globalThis.durableRoomServers = {
    services,
    dispose: async () => {
      await services.stop();
      await folder.release();
      await rm(path, { recursive: true, force: true });
    },
  };
}
