// The addresses of the local servers of a data folder while they run. The instance that owns the folder writes them; the
// commands of `durable-room` read them.

import { readFile, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { z } from 'zod';
import type { DataFolder } from './data-folder';
import { PROJECT_ROOT } from './project-root';
import { identifyProcess, isStillRunning } from './process-identity';
import type { Services } from './services';

export const DEFAULT_DATA_FOLDER = join(PROJECT_ROOT, '.durable-room', 'data');

const FILE = 'running.json';
/** A file in Temporal's configuration format, for its CLI: `temporal --config-file …`. */
const PROFILE_FILE = 'temporal.toml';

const Running = z.object({
  owner: z.object({ pid: z.int().positive(), startMark: z.string().nullable() }),
  /** Null if the server is not a local one. */
  database_url: z.string().nullable(),
  temporal: z.object({ address: z.string(), namespace: z.string() }).nullable(),
});

/** Writes the addresses of the local servers to a file that only its owner can read. Returns a function that removes it. */
export async function announceServices(
  folder: DataFolder,
  own: { readonly databaseUrl: string | null; readonly temporal: Services['temporal'] | null },
): Promise<() => Promise<void>> {
  const temporal = own.temporal && { address: own.temporal.address, namespace: own.temporal.namespace };
  const running: z.infer<typeof Running> = {
    owner: await identifyProcess(process.pid),
    database_url: own.databaseUrl,
    temporal,
  };
  if (temporal !== null) await replaceFile(profileFileOf(folder.path), profileOf(temporal));
  await replaceFile(join(folder.path, FILE), JSON.stringify(running));
  return () => rm(join(folder.path, FILE), { force: true });
}

function profileOf({ address, namespace }: { address: string; namespace: string }): string {
  return `[profile.default]\naddress = ${JSON.stringify(address)}\nnamespace = ${JSON.stringify(namespace)}\n`;
}

/** The configuration file of the local Temporal server. Setting it keeps the SDK from reading the user's own file. */
export function profileFileOf(folder: string): string {
  return join(folder, PROFILE_FILE);
}

/** The settings of the local servers that run in this folder, as environment variables. Empty if none run. */
export async function findRunningServices(folder: string): Promise<Record<string, string>> {
  const text = await readFile(join(folder, FILE), 'utf8').catch(() => null);
  const running = text === null ? null : Running.parse(JSON.parse(text));
  if (running === null || !(await isStillRunning(running.owner))) return {};
  const masterKeys = await readFile(join(folder, 'secrets', 'master-keys'), 'utf8').catch(() => null);
  return {
    ...(running.database_url === null ? {} : { DATABASE_URL: running.database_url }),
    ...(running.temporal === null
      ? {}
      : {
          TEMPORAL_ADDRESS: running.temporal.address,
          TEMPORAL_NAMESPACE: running.temporal.namespace,
          TEMPORAL_CONFIG_FILE: profileFileOf(folder),
        }),
    ...(masterKeys === null ? {} : { MASTER_KEYS: masterKeys }),
  };
}

async function replaceFile(path: string, text: string): Promise<void> {
  const draft = `${path}.${process.pid}`;
  await writeFile(draft, text, { mode: 0o600 });
  await rename(draft, path);
}
