import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { openDataFolder } from '../../worker/local/data-folder';
import { isStillRunning } from '../../worker/local/process-identity';
import { startServices } from '../../worker/local/services';
import { startOwner } from '../support/embedded-owner';

const CACHE = join(__dirname, '..', '..', 'node_modules', '.cache', 'durable-room');

let parent: string;
beforeAll(async () => {
  parent = await mkdtemp(join(tmpdir(), 'room-services-'));
});
afterAll(async () => {
  await rm(parent, { recursive: true, force: true });
});

const isRunning = (pid: number): Promise<boolean> => isStillRunning({ pid, startMark: null });

it('after a SIGKILL of an instance, the next instance takes over its folder and replaces both its servers', async () => {
  const path = join(parent, 'data');
  const owner = await startOwner(`
    const dataFolder = await load('data-folder').openDataFolder(${JSON.stringify(path)});
    const { postgres, temporal } = { postgres: load('postgres'), temporal: load('temporal-server') };
    const pids = [];
    const recordPid = (start) => async (options) => { const server = await start(options); pids.push(server.pid); return server; };
    await load('services').startServices({
      dataFolder, cliCacheDir: ${JSON.stringify(CACHE)}, temporalHeadless: true, durability: 'test', log: () => {},
      starters: { postgres: recordPid(postgres.startEmbeddedPostgres), temporal: recordPid(temporal.startEmbeddedTemporal) },
    });
    return pids.join(' ');
  `);
  await expect(openDataFolder(path)).rejects.toThrow(`in use by process ${owner.pid}`);
  await owner.kill();
  expect(await Promise.all(owner.owned.map(isRunning))).toEqual([true, true]);

  const lines: string[] = [];
  const folder = await openDataFolder(path);
  const services = await startServices({
    dataFolder: folder,
    cliCacheDir: CACHE,
    temporalHeadless: true,
    durability: 'test',
    log: (line) => lines.push(line),
  });
  expect(lines.filter((line) => line.includes('was left running'))).toHaveLength(2);
  expect(await Promise.all(owner.owned.map(isRunning))).toEqual([false, false]);
  expect(services.databaseUrl).toMatch(/^postgresql:\/\/postgres:[0-9a-f]{48}@127\.0\.0\.1:\d+\/durable_room$/);
  expect(lines.join()).not.toContain(new URL(services.databaseUrl).password);
  await services.stop();
  await folder.release();
  expect(await readdir(join(path, 'lock'))).toEqual([]);
});
