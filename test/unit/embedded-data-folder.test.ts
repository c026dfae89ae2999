import { mkdir, mkdtemp, readFile, readdir, rm, stat, utimes, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { openDataFolder } from '../../worker/local/data-folder';
import { identifyProcess, isStillRunning } from '../../worker/local/process-identity';
import { startOwner } from '../support/embedded-owner';

let dir: string;
beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), 'room-folder-'));
});
afterEach(async () => {
  await rm(dir, { recursive: true, force: true });
});

const owning = (path: string): string =>
  `await load('data-folder').openDataFolder(${JSON.stringify(path)}); return process.pid;`;

describe('the data folder', () => {
  it('is created without access for other users, and can be opened again after its release', async () => {
    const path = join(dir, 'a', 'data');
    const folder = await openDataFolder(path);
    expect(folder.path).toBe(path);
    // PostgreSQL's user may pass through root's folder, but no other user may list it.
    expect((await stat(path)).mode & 0o066).toBe(0);
    await folder.release();
    await folder.release();
    await (await openDataFolder(path)).release();
    expect(await readdir(join(path, 'lock'))).toEqual([]);
  });

  it('is refused while this process holds it', async () => {
    const folder = await openDataFolder(join(dir, 'data'));
    await expect(openDataFolder(join(dir, 'data'))).rejects.toThrow(/in use by this process/);
    await folder.release();
  });

  it('is refused while another process holds it, and is free after a SIGKILL of that process', async () => {
    const path = join(dir, 'data');
    const owner = await startOwner(owning(path));
    await expect(openDataFolder(path)).rejects.toThrow(new RegExp(`in use by process ${owner.pid}\\b`));
    await owner.kill();
    expect(await readdir(join(path, 'lock'))).toHaveLength(1);
    const folder = await openDataFolder(path);
    expect(await readdir(join(path, 'lock'))).toHaveLength(1);
    await folder.release();
  });

  it('is given to at most one of many simultaneous callers', async () => {
    const path = join(dir, 'data');
    for (let round = 0; round < 5; round += 1) {
      const results = await Promise.allSettled(Array.from({ length: 6 }, () => openDataFolder(path)));
      const held = results.flatMap((result) => (result.status === 'fulfilled' ? [result.value] : []));
      expect(held.length).toBeLessThanOrEqual(1);
      await Promise.all(held.map((folder) => folder.release()));
    }
  });

  it('does not treat a later process with the same pid as the holder', async () => {
    const path = join(dir, 'data');
    await (await openDataFolder(path)).release();
    const me = await identifyProcess(process.pid);
    expect(await isStillRunning(me)).toBe(true);
    expect(await isStillRunning({ ...me, startMark: 'another start' })).toBe(me.startMark === null);
    const holder = await openDataFolder(path);
    const name = (await readdir(join(path, 'lock')))[0] ?? '';
    const entry = JSON.parse(await readFile(join(path, 'lock', name), 'utf8')) as { startMark: string };
    await holder.release();
    await writeFile(join(path, 'lock', name), JSON.stringify({ ...entry, startMark: 'another start' }));
    await (await openDataFolder(path)).release();
  });

  it('accepts a holder on another machine for as long as that holder touches its entry', async () => {
    const path = join(dir, 'data');
    await (await openDataFolder(path)).release();
    const entry = join(path, 'lock', 'other.json');
    await writeFile(entry, JSON.stringify({ pid: 1, startMark: 'x', machine: 'another-host' }));
    await expect(openDataFolder(path)).rejects.toThrow(/in use by process 1 on another-host/);
    const longAgo = new Date(Date.now() - 60_000);
    await utimes(entry, longAgo, longAgo);
    await (await openDataFolder(path)).release();
  });

  it.each([
    ['a newer', 99],
    ['an older', 0],
  ])('of %s release is refused, naming both versions', async (relation, version) => {
    const path = join(dir, 'data');
    await (await openDataFolder(path)).release();
    await writeFile(join(path, 'layout.json'), JSON.stringify({ madeBy: 'durable-room', version }));
    await expect(openDataFolder(path)).rejects.toThrow(
      new RegExp(`layout version ${version}, made by ${relation} release.*reads version 1`),
    );
    // The refused call left no lock.
    expect(await readdir(join(path, 'lock'))).toEqual([]);
  });

  it('is refused with an unreadable layout or with foreign files', async () => {
    await (await openDataFolder(join(dir, 'data'))).release();
    await writeFile(join(dir, 'data', 'layout.json'), '{}');
    await expect(openDataFolder(join(dir, 'data'))).rejects.toThrow(/can't be read as the layout/);

    await mkdir(join(dir, 'home'));
    await writeFile(join(dir, 'home', 'thesis.txt'), 'mine');
    await expect(openDataFolder(join(dir, 'home'))).rejects.toThrow(/holds other files \(thesis.txt\)/);
    expect(await readdir(join(dir, 'home'))).toEqual(['thesis.txt']);
    await expect(openDataFolder(join(dir, 'home', 'thesis.txt', 'x'))).rejects.toThrow(/can't be used/);
  });

  it('stores a secret without access for other users', async () => {
    const folder = await openDataFolder(join(dir, 'data'));
    const made = await Promise.all([folder.secret('key', () => 'one'), folder.secret('key', () => 'two')]);
    expect(made[0]).toBe(made[1]);
    expect(await folder.secret('key', () => 'three')).toBe(made[0]);
    const file = join(folder.path, 'secrets', 'key');
    expect((await stat(file)).mode & 0o777).toBe(0o600);
    expect(await readdir(join(folder.path, 'secrets'))).toEqual(['key']);
    await expect(folder.secret('../key', () => 'x')).rejects.toThrow('not the name of a secret');
    await folder.release();
  });
});
