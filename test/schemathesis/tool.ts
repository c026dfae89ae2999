// Finds schemathesis: from SCHEMATHESIS_PATH, an earlier installation or PATH. Otherwise installs it into a folder of the
// project with uv or pip.

import { execFileSync } from 'node:child_process';
import { join } from 'node:path';

/** Pinned, because a newer version reports other failures. */
const VERSION = '4.32.5';
/** The limit of one command of an installation. Without a network, a command fails sooner. */
const COMMAND_MS = 90_000;

export type Tool =
  { readonly found: true; readonly path: string } | { readonly found: false; readonly tried: readonly string[] };

/**
 * Finds schemathesis, or installs it below `cacheDir`. Never throws: if it is not found, the result lists the attempts.
 * Synchronous, so that a test file can use the result before it defines its tests.
 */
export function findSchemathesis(cacheDir: string, named: string | undefined): Tool {
  const folder = join(cacheDir, `schemathesis-${VERSION}`);
  const kept = join(folder, 'bin', 'schemathesis');
  const python = join(folder, 'bin', 'python');
  const requirement = `schemathesis==${VERSION}`;
  const ways: readonly { readonly name: string; readonly path: string; readonly before: readonly string[][] }[] = [
    ...(named === undefined ? [] : [{ name: 'SCHEMATHESIS_PATH', path: named, before: [] }]),
    { name: 'kept from before', path: kept, before: [] },
    { name: 'on PATH', path: 'schemathesis', before: [] },
    {
      name: 'installed by uv',
      path: kept,
      before: [
        ['uv', 'venv', '--quiet', folder],
        ['uv', 'pip', 'install', '--quiet', '--python', python, requirement],
      ],
    },
    {
      name: 'installed by pip',
      path: kept,
      before: [
        ['python3', '-m', 'venv', folder],
        [python, '-m', 'pip', 'install', '--quiet', '--no-compile', requirement],
      ],
    },
  ];
  const tried: string[] = [];
  for (const { name, path, before } of ways) {
    try {
      for (const [command = '', ...args] of [...before, [path, '--version']]) {
        execFileSync(command, args, { timeout: COMMAND_MS, stdio: 'pipe' });
      }
      return { found: true, path };
    } catch (error) {
      tried.push(`${name}: ${error instanceof Error ? (error.message.split('\n')[0] ?? '') : String(error)}`);
    }
  }
  return { found: false, tried };
}
