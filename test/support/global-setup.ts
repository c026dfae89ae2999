// Starts one PostgreSQL and one Temporal dev server for the whole run of jest; global-teardown.ts stops them. Each test file
// uses its own database and task queue on them.

import { chmod, mkdir, mkdtemp, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { openDataFolder } from '../../worker/local/data-folder';
import { startServices, type Services } from '../../worker/local/services';
import { compileFileParser } from './compiled-sources';
import { ensureTemplate } from './database';
import { makeTemporaryFolder } from './temporary-folder';
import { CLI_CACHE } from '../../worker/local/project-root';

export interface SharedServers {
  readonly services: Services;
  readonly dispose: () => Promise<void>;
}

declare global {
  var durableRoomServers: SharedServers | undefined;
}

export default async function setUp(): Promise<void> {
  const path = makeTemporaryFolder();
  const own = join(path, 'tmp');
  // TMPDIR for the test files and the programs that they start. The user of Postgres must be able to enter both folders.
  for (const passed of [path, own]) await mkdir(passed, { recursive: true }).then(() => chmod(passed, 0o711));
  process.env['TMPDIR'] = own;
  const folder = await openDataFolder(await mkdtemp(join(path, 'servers-')));
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
  process.env['TEST_FILE_PARSER'] = compileFileParser(await mkdtemp(join(path, 'parser-')));
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
