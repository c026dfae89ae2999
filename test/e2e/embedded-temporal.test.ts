import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { Client, Connection } from '@temporalio/client';
import { SearchAttributeType, TypedSearchAttributes, defineSearchAttributeKey } from '@temporalio/common';

import { isStillRunning } from '../../worker/local/process-identity';
import { findTemporalCli } from '../../worker/local/temporal-cli';
import { startEmbeddedTemporal } from '../../worker/local/temporal-server';
import type { EmbeddedTemporal, EmbeddedTemporalOptions } from '../../worker/local/temporal-server';
import { startOwner } from '../support/embedded-owner';

const CACHE = join(__dirname, '..', '..', 'node_modules', '.cache', 'durable-room');

let cliPath: string;
let parent: string;
let dir: string;
let lines: string[];
const running: EmbeddedTemporal[] = [];

beforeAll(async () => {
  parent = await mkdtemp(join(tmpdir(), 'room-temporal-'));
  dir = join(parent, 'temporal');
  cliPath = (await findTemporalCli({ cacheDir: CACHE, log: () => undefined })).path;
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

async function start(more: Partial<EmbeddedTemporalOptions> = {}): Promise<EmbeddedTemporal> {
  const server = await startEmbeddedTemporal({
    cliPath,
    dir,
    namespace: 'rooms',
    headless: true,
    log: (line) => lines.push(line),
    ...more,
  });
  running.push(server);
  return server;
}

// In many containers process 1 does not reap its children, so a killed orphan remains as a zombie.
const isRunning = (pid: number): Promise<boolean> => isStillRunning({ pid, startMark: null });

async function withClient<T>(server: EmbeddedTemporal, use: (client: Client) => Promise<T>): Promise<T> {
  const connection = await Connection.connect({ address: server.address });
  try {
    return await use(new Client({ connection, namespace: server.namespace }));
  } finally {
    await connection.close();
  }
}

const statusOf = (server: EmbeddedTemporal, workflowId: string): Promise<string> =>
  withClient(server, async (client) => (await client.workflow.getHandle(workflowId).describe()).status.name);

async function occupyPort(): Promise<{ port: number; connections: () => number; free: () => Promise<void> }> {
  let connections = 0;
  const other = createServer((socket) => {
    connections += 1;
    socket.destroy();
  });
  await new Promise<void>((resolve) => other.listen(0, '127.0.0.1', resolve));
  const address = other.address();
  return {
    port: typeof address === 'object' && address !== null ? address.port : 0,
    connections: () => connections,
    free: () => new Promise((resolve) => other.close(() => resolve())),
  };
}

describe('the embedded Temporal server', () => {
  it('has the search attributes, keeps its workflows over a restart, and leaves no process running', async () => {
    const first = await start({ headless: false });
    const names = ['RoomId', 'AgentId', 'CompanyId', 'RunEnding', 'RunState'];
    await withClient(first, async (client) => {
      await client.workflow.start('workflowWithoutWorker', {
        taskQueue: 'none',
        workflowId: 'kept',
        typedSearchAttributes: new TypedSearchAttributes(
          names.map((name) => ({ key: defineSearchAttributeKey(name, SearchAttributeType.KEYWORD), value: 'x' })),
        ),
      });
    });
    expect((await fetch(first.uiUrl ?? '')).status).toBe(200);
    await Promise.all([first.stop(), first.stop()]);
    expect(await isRunning(first.pid)).toBe(false);

    const second = await start();
    expect(second.uiUrl).toBeNull();
    expect(await statusOf(second, 'kept')).toBe('RUNNING');
    await second.stop();
    await second.stop();
    expect(await isRunning(second.pid)).toBe(false);
    const log = await readFile(join(dir, 'temporal.log'), 'utf8');
    expect(log).toContain('Temporal');
  });

  it('refuses ports in use, and does not connect to the servers that use them', async () => {
    const other = await occupyPort();
    await expect(start({ port: other.port })).rejects.toThrow(
      new RegExp(`Port ${other.port} .*the port of the Temporal server, is taken`),
    );
    await expect(start({ headless: false, uiPort: other.port })).rejects.toThrow(
      /the port of the Temporal UI, is taken/,
    );
    expect(other.connections()).toBe(0);
    await other.free();
    expect((await start({ port: other.port, inMemory: true })).address).toBe(`127.0.0.1:${other.port}`);
  });

  it('does not start while the owner of its folder lives, or while another server uses its file', async () => {
    await start();
    await expect(start()).rejects.toThrow(new RegExp(`in use by process ${process.pid}`));
    // As if a user had started the other server by hand.
    await rm(join(dir, 'server.json'));
    await expect(start()).rejects.toThrow(/temporal\.db is in use by another server/);
  });

  it('stops the server that a killed owner left running, and has its workflows', async () => {
    const owner = await startOwner(
      `const server = await load('temporal-server').startEmbeddedTemporal({
         cliPath: ${JSON.stringify(cliPath)}, dir: ${JSON.stringify(dir)}, namespace: 'rooms', headless: true, log: () => {} });
       return server.pid;`,
    );
    const left = owner.owned[0] ?? 0;
    await owner.kill();
    expect(await isRunning(left)).toBe(true);
    const server = await start();
    expect(lines.join()).toContain(`(process ${left}) was left running`);
    expect(await isRunning(left)).toBe(false);
    expect(await statusOf(server, 'kept')).toBe('RUNNING');

    process.kill(server.pid, 'SIGKILL');
    while (!lines.some((line) => line.includes('ended by itself: signal SIGKILL'))) {
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
    expect(await statusOf(await start(), 'kept')).toBe('RUNNING');
  });

  it('reports the output of a program that ends at once, and the error of a program that cannot be started', async () => {
    await expect(start({ extraArgs: ['--no-such-flag'] })).rejects.toThrow(
      /did not start \(exit code 1\)[^]*unknown flag: --no-such-flag/,
    );
    await expect(start({ cliPath: '/no/such/temporal' })).rejects.toThrow(/could not be started.*ENOENT/);
  });
});
