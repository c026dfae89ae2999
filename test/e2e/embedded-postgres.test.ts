import { chmod, lstat, mkdir, mkdtemp, readFile, rm, stat, symlink, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { Client } from 'pg';

import { startEmbeddedPostgres } from '../../worker/local/postgres';
import type { EmbeddedPostgres } from '../../worker/local/postgres';
import { binariesIn, hydrateSymlinks } from '../../worker/local/postgres-binaries';
import { ensureReachableBinaries } from '../../worker/local/postgres-user';
import { isStillRunning } from '../../worker/local/process-identity';
import { startOwner } from '../support/embedded-owner';

const asRoot = process.getuid?.() === 0;

let parent: string;
let dir: string;
let lines: string[];
const running: EmbeddedPostgres[] = [];

beforeAll(async () => {
  parent = await mkdtemp(join(tmpdir(), 'room-postgres-'));
  dir = join(parent, 'postgres');
});
beforeEach(() => {
  lines = [];
});
afterEach(async () => {
  for (const server of running.splice(0)) await server.stop();
});
afterAll(async () => {
  await rm(parent, { recursive: true, force: true });
});

async function start(more: { dir?: string; port?: number } = {}): Promise<EmbeddedPostgres> {
  const server = await startEmbeddedPostgres({ dir, durability: 'test', log: (line) => lines.push(line), ...more });
  running.push(server);
  return server;
}

// In many containers process 1 does not reap its children, so a killed orphan remains as a zombie.
const isRunning = (pid: number): Promise<boolean> => isStillRunning({ pid, startMark: null });

async function query(url: string, text: string): Promise<string> {
  const client = new Client({ connectionString: url });
  await client.connect();
  try {
    const { rows } = await client.query<Record<string, unknown>>(text);
    return rows.map((row) => Object.values(row).join()).join(';');
  } finally {
    await client.end();
  }
}

const owning = `const server = await load('postgres').startEmbeddedPostgres({ dir: DIR, durability: 'test', log: () => {} }); return server.pid;`;
const startOwnerOf = (folder: string) => startOwner(owning.replace('DIR', JSON.stringify(folder)));

describe('the embedded PostgreSQL', () => {
  it('keeps its data over a restart, and leaves no process running', async () => {
    const first = await start();
    await query(first.url, 'CREATE TABLE kept AS SELECT 42 AS answer');
    expect(await query(first.url, 'SELECT current_database()')).toBe('durable_room');
    await Promise.all([first.stop(), first.stop()]);
    expect(await isRunning(first.pid)).toBe(false);

    const second = await start();
    expect(await query(second.url, 'SELECT answer FROM kept')).toBe('42');
    await second.stop();
    await second.stop();
    expect(await isRunning(second.pid)).toBe(false);
  });

  it('listens on loopback only, without a Unix socket, and requires its password', async () => {
    const { url } = await start();
    expect(await query(url, 'SHOW listen_addresses')).toBe('127.0.0.1');
    expect(await query(url, 'SHOW unix_socket_directories')).toBe('');
    expect(await query(url, 'SHOW max_connections')).toBe('200');
    const { password } = new URL(url);
    await expect(query(url.replace(password, 'guess'), 'SELECT 1')).rejects.toThrow('password authentication failed');
    const file = join(dir, 'superuser-password');
    expect((await stat(file)).mode & 0o777).toBe(0o600);
    expect(await readFile(file, 'utf8')).toBe(password);
    expect(await readFile(join(dir, 'postgres.log'), 'utf8')).not.toContain(password);
    expect(lines.join()).not.toContain(password);
  });

  it('refuses a port in use, and does not connect to the server that uses it', async () => {
    let connections = 0;
    const other = createServer((socket) => {
      connections += 1;
      socket.destroy();
    });
    await new Promise<void>((resolve) => other.listen(0, '127.0.0.1', resolve));
    const address = other.address();
    const port = typeof address === 'object' && address !== null ? address.port : 0;
    await expect(start({ port })).rejects.toThrow(new RegExp(`Port ${port} .*the port of PostgreSQL, is taken`));
    expect(connections).toBe(0);
    await new Promise((resolve) => other.close(resolve));
    expect((await start({ port })).port).toBe(port);
  });

  it('does not start while the owner of its folder lives', async () => {
    const server = await start();
    await expect(start()).rejects.toThrow(new RegExp(`PostgreSQL in .* is in use by process ${process.pid}`));
    expect(await query(server.url, 'SELECT 1')).toBe('1');
  });

  it('stops the server that a killed owner left running, and has its data', async () => {
    const owner = await startOwnerOf(dir);
    const left = owner.owned[0] ?? 0;
    await owner.kill();
    expect(await isRunning(left)).toBe(true);
    const server = await start();
    expect(lines.join()).toContain(`(process ${left}) was left running`);
    expect(await isRunning(left)).toBe(false);
    expect(await query(server.url, 'SELECT answer FROM kept')).toBe('42');
  });

  it('recovers after owner and server were killed, and when another process has the stale pid', async () => {
    const owner = await startOwnerOf(dir);
    const left = owner.owned[0] ?? 0;
    await owner.kill();
    process.kill(left, 'SIGKILL');
    const pidFile = join(dir, 'data', 'postmaster.pid');
    expect(await readFile(pidFile, 'utf8')).toContain(String(left));
    const server = await start();
    expect(await query(server.url, 'SELECT answer FROM kept')).toBe('42');
    await server.stop();

    // The process of this test is alive and is not PostgreSQL.
    await writeFile(pidFile, `${process.pid}\n${join(dir, 'data')}\n0\n5432\n\n127.0.0.1\n`);
    expect(await query((await start()).url, 'SELECT answer FROM kept')).toBe('42');
    expect(lines.join()).not.toContain('left running');
  });

  it('reports when its process ends unexpectedly', async () => {
    const server = await start();
    process.kill(server.pid, 'SIGKILL');
    while (lines.length === 0) await new Promise((resolve) => setTimeout(resolve, 10));
    expect(lines[0]).toMatch(/ended by itself: signal SIGKILL/);
  });

  it('refuses a folder of another major version, and a folder whose password is lost', async () => {
    const version = join(dir, 'data', 'PG_VERSION');
    const original = await readFile(version, 'utf8');
    await writeFile(version, '15\n');
    await expect(start()).rejects.toThrow(/was made by PostgreSQL 15; this release ships PostgreSQL 18\.\d.*pg_dump/);
    await writeFile(version, original);

    const password = join(dir, 'superuser-password');
    const kept = await readFile(password, 'utf8');
    await rm(password);
    await expect(start()).rejects.toThrow(/password .* is lost/);
    await writeFile(password, 'another', { mode: 0o600 });
    await expect(start()).rejects.toThrow(/can't be used: password authentication failed/);
    await writeFile(password, kept);
    await start();
  });

  it('creates the missing links between libraries once', async () => {
    const native = join(parent, 'package', 'native');
    await mkdir(join(native, 'lib'), { recursive: true });
    await writeFile(join(native, 'lib', 'libx.so.5.18'), 'library');
    const link = { source: 'native/lib/libx.so.5.18', target: 'native/lib/libx.so.5' };
    await writeFile(join(native, 'pg-symlinks.json'), JSON.stringify([link]));
    await Promise.all([hydrateSymlinks(join(parent, 'package')), hydrateSymlinks(join(parent, 'package'))]);
    expect(await readFile(join(native, 'lib', 'libx.so.5'), 'utf8')).toBe('library');
    expect((await lstat(join(native, 'lib', 'libx.so.5'))).isSymbolicLink()).toBe(true);
    await writeFile(join(native, 'pg-symlinks.json'), JSON.stringify([{ ...link, target: '../outside' }]));
    await expect(hydrateSymlinks(join(parent, 'package'))).rejects.toThrow('outside of its package');
    await expect(symlink('x', join(parent, 'outside'))).resolves.toBeUndefined();
  });

  (asRoot ? it : it.skip)("as root, copies the programs where PostgreSQL's user can run them", async () => {
    const root = join(parent, 'closed-package', 'native');
    await mkdir(join(root, 'bin'), { recursive: true, mode: 0o755 });
    await writeFile(join(root, 'bin', 'postgres'), 'program', { mode: 0o755 });
    const binaries = { ...binariesIn(root), version: '18.4' };
    const user = { uid: 54_321, gid: 54_321 };
    const folder = join(parent, 'reachable');
    await mkdir(folder);
    expect(await ensureReachableBinaries(binaries, folder, user)).toEqual(binaries);
    await chmod(join(parent, 'closed-package'), 0o700);
    const copy = await ensureReachableBinaries(binaries, folder, user);
    expect(copy.postgres).toBe(join(folder, 'server-18.4', 'bin', 'postgres'));
    expect(await readFile(copy.postgres, 'utf8')).toBe('program');
    expect(await ensureReachableBinaries(binaries, folder, user)).toEqual(copy);
    expect(await ensureReachableBinaries(binaries, folder, null)).toEqual(binaries);
  });

  (asRoot ? it : it.skip)("as root, keeps its files in a folder that PostgreSQL's user can reach", async () => {
    const closed = join(parent, 'closed');
    await mkdir(join(closed, 'home', 'data'), { recursive: true, mode: 0o700 });
    const hidden = join(closed, 'home', 'data', 'postgres');
    const first = await start({ dir: hidden });
    const elsewhere = await readFile(join(hidden, 'location'), 'utf8');
    try {
      expect(lines.join()).toContain(`can't pass through ${closed}`);
      expect((await stat(closed)).mode & 0o777).toBe(0o700);
      await query(first.url, 'CREATE TABLE kept AS SELECT 43 AS answer');
      await first.stop();
      const second = await start({ dir: hidden });
      expect(await query(second.url, 'SELECT answer FROM kept')).toBe('43');
      await second.stop();
    } finally {
      await first.stop();
      await rm(elsewhere, { recursive: true, force: true });
    }
    await expect(start({ dir: hidden })).rejects.toThrow(/that folder is gone/);
  });
});
