// How a command finds its servers: by the set variables, else from the services that run in the data folder.

import { mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { openDataFolder, type DataFolder } from '../../worker/local/data-folder';
import { announceServices, findRunningServices, profileFileOf } from '../../worker/local/running';
import { readTemporalSettings } from '../../worker/temporal/settings';
import { namesTemporal, toolEnvironment, withoutTemporal } from '../../worker/cli/tool-environment';

const TEMPORAL = { address: '127.0.0.1:7239', namespace: 'rooms', uiUrl: null };
const DATABASE = 'postgresql://postgres:secret@127.0.0.1:5439/durable_room';

let parent: string;
let folder: DataFolder;

beforeEach(async () => {
  parent = await mkdtemp(join(tmpdir(), 'durable-room-running-'));
  folder = await openDataFolder(join(parent, 'data'));
});
afterEach(async () => {
  await folder.release();
  await rm(parent, { recursive: true, force: true });
});

test('services are found while their instance runs, only by its owner, and not after its end', async () => {
  await folder.secret('master-keys', () => 'k1:abc');
  const takeBack = await announceServices(folder, { databaseUrl: DATABASE, temporal: TEMPORAL });
  expect(await findRunningServices(folder.path)).toEqual({
    DATABASE_URL: DATABASE,
    TEMPORAL_ADDRESS: '127.0.0.1:7239',
    TEMPORAL_NAMESPACE: 'rooms',
    TEMPORAL_CONFIG_FILE: profileFileOf(folder.path),
    MASTER_KEYS: 'k1:abc',
  });
  expect((await stat(join(folder.path, 'running.json'))).mode & 0o077).toBe(0);
  // Temporal's own tools read the profile.
  expect(readTemporalSettings({ TEMPORAL_CONFIG_FILE: profileFileOf(folder.path) })).toMatchObject({
    address: '127.0.0.1:7239',
    namespace: 'rooms',
  });
  await takeBack();
  expect(await findRunningServices(folder.path)).toEqual({});
});

test('the files of a killed instance name no server', async () => {
  await announceServices(folder, { databaseUrl: DATABASE, temporal: TEMPORAL });
  const file = join(folder.path, 'running.json');
  const running = JSON.parse(await readFile(file, 'utf8'));
  await writeFile(file, JSON.stringify({ ...running, owner: { pid: 2 ** 22 + 1, startMark: null } }));
  expect(await findRunningServices(folder.path)).toEqual({});
});

test('a configured database and its password are not written to the folder', async () => {
  await announceServices(folder, { databaseUrl: null, temporal: TEMPORAL });
  expect(await findRunningServices(folder.path)).not.toHaveProperty('DATABASE_URL');
});

test('set variables win, and a named server is not mixed with the local one', async () => {
  await announceServices(folder, { databaseUrl: DATABASE, temporal: TEMPORAL });
  const DATA_FOLDER = folder.path;
  expect(await toolEnvironment({ DATA_FOLDER })).toMatchObject({
    DATABASE_URL: DATABASE,
    TEMPORAL_ADDRESS: '127.0.0.1:7239',
  });
  // A key for another server would make the local server refuse the connection.
  expect(await toolEnvironment({ DATA_FOLDER, TEMPORAL_API_KEY: 'key' })).not.toHaveProperty('TEMPORAL_API_KEY');
  const named = await toolEnvironment({ DATA_FOLDER, TEMPORAL_ADDRESS: 'there:7233', TEMPORAL_API_KEY: 'key' });
  expect(named).toMatchObject({ TEMPORAL_ADDRESS: 'there:7233', TEMPORAL_API_KEY: 'key', DATABASE_URL: DATABASE });
  expect(named).not.toHaveProperty('TEMPORAL_NAMESPACE');
  expect(await toolEnvironment({ DATA_FOLDER, DATABASE_URL: 'postgres://mine' })).toMatchObject({
    DATABASE_URL: 'postgres://mine',
  });
});

test('a server is named by its address or by a profile, not by a namespace or a converter', async () => {
  const file = join(parent, 'temporal.toml');
  await writeFile(file, '[profile.there]\naddress = "there:7233"\n[profile.empty]\nnamespace = "x"\n');
  expect(namesTemporal({ TEMPORAL_ADDRESS: 'there:7233' })).toBe(true);
  expect(namesTemporal({ TEMPORAL_CONFIG_FILE: file, TEMPORAL_PROFILE: 'there' })).toBe(true);
  expect(namesTemporal({ TEMPORAL_CONFIG_FILE: file, TEMPORAL_PROFILE: 'empty' })).toBe(false);
  expect(namesTemporal({ TEMPORAL_NAMESPACE: 'x', TEMPORAL_DATA_CONVERTER: './x.js', TEMPORAL_ADDRESS: '' })).toBe(
    false,
  );
  expect(withoutTemporal({ TEMPORAL_TLS_SERVER_NAME: 'x', TEMPORAL_DATA_CONVERTER: './x.js', PATH: '/bin' })).toEqual({
    TEMPORAL_DATA_CONVERTER: './x.js',
    PATH: '/bin',
  });
});
