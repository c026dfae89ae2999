import { setTimeout as sleep } from 'node:timers/promises';

import type { DataFolder } from '../../worker/local/data-folder';
import { startServices } from '../../worker/local/services';
import type { ServicesOptions } from '../../worker/local/services';
import { withProgress } from '../../worker/local/silence';

const folder: DataFolder = {
  path: '/data',
  postgres: '/data/postgres',
  temporal: '/data/temporal',
  logs: '/data/logs',
  secret: async (_name, make) => make(),
  release: async () => undefined,
};

function world(): { events: string[]; options: ServicesOptions } {
  const events: string[] = [];
  const stopOf = (name: string) => async () => {
    events.push(`stop ${name}`);
  };
  return {
    events,
    options: {
      dataFolder: folder,
      log: () => undefined,
      starters: {
        postgres: async ({ dir }) => {
          events.push(`postgres in ${dir}`);
          return { url: 'postgresql://ours', port: 5432, pid: 1, stop: stopOf('postgres') };
        },
        findCli: async ({ configuredPath }) => ({ path: configuredPath ?? 'temporal', version: '1.9.1', foundBy: 'x' }),
        temporal: async ({ dir, cliPath, namespace }) => {
          events.push(`temporal in ${dir} by ${cliPath}`);
          return {
            address: '127.0.0.1:7233',
            namespace: namespace ?? 'default',
            uiUrl: 'http://127.0.0.1:8233',
            pid: 2,
            stop: stopOf('temporal'),
          };
        },
      },
    },
  };
}

describe('the services around the project', () => {
  it('starts both, and stops them once, Temporal first', async () => {
    const { events, options } = world();
    const services = await startServices({ ...options, temporalCliPath: '/opt/temporal' });
    expect(services.databaseUrl).toBe('postgresql://ours');
    expect(services.temporal).toEqual({
      address: '127.0.0.1:7233',
      namespace: 'default',
      uiUrl: 'http://127.0.0.1:8233',
    });
    await Promise.all([services.stop(), services.stop()]);
    expect(events).toEqual([
      'postgres in /data/postgres',
      'temporal in /data/temporal by /opt/temporal',
      'stop temporal',
      'stop postgres',
    ]);
  });

  it('uses a configured server and starts no local one for it', async () => {
    const { events, options } = world();
    const both = await startServices({
      ...options,
      dataFolder: null,
      databaseUrl: 'postgresql://theirs',
      temporalAddress: 'temporal:7233',
      temporalNamespace: 'rooms',
    });
    expect(both).toMatchObject({
      databaseUrl: 'postgresql://theirs',
      temporal: { address: 'temporal:7233', namespace: 'rooms', uiUrl: null },
    });
    await both.stop();
    expect(events).toEqual([]);

    // An empty variable counts as not configured.
    const one = await startServices({ ...options, databaseUrl: 'postgresql://theirs', temporalAddress: '' });
    await one.stop();
    expect(events).toEqual(['temporal in /data/temporal by temporal', 'stop temporal']);
    await expect(startServices({ ...options, dataFolder: null, databaseUrl: 'postgresql://theirs' })).rejects.toThrow(
      'TEMPORAL_ADDRESS is not set',
    );
  });

  it('stops the started service when the other fails, and cancels a download', async () => {
    const { events, options } = world();
    const failing = startServices({
      ...options,
      starters: {
        ...options.starters,
        temporal: async () => {
          await sleep(20);
          throw new Error('port taken');
        },
      },
    });
    await expect(failing).rejects.toThrow('port taken');
    expect(events).toEqual(['postgres in /data/postgres', 'stop postgres']);

    let givenUp = false;
    const broken = startServices({
      ...options,
      starters: {
        postgres: async () => {
          throw new Error('wrong version');
        },
        findCli: async ({ signal }) => {
          while (signal?.aborted !== true) await sleep(5);
          givenUp = true;
          throw new Error('given up');
        },
      },
    });
    await expect(broken).rejects.toThrow('wrong version');
    expect(givenUp).toBe(true);
  });

  it('logs every second what it waits for', async () => {
    const lines: string[] = [];
    await withProgress(
      (line) => lines.push(line),
      'downloading',
      () => sleep(2300),
    );
    expect(lines).toEqual(['downloading … (1 s)', 'downloading … (2 s)']);
    await withProgress(
      (line) => lines.push(line),
      'quick',
      async () => undefined,
    );
    expect(lines).toHaveLength(2);
  });
});
