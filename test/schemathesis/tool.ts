// Where schemathesis comes from: named, on PATH, kept from before, or installed into a folder of the project's own, by uv or
// by Python itself.

import { execFileSync } from 'node:child_process';
import { join } from 'node:path';

/** Pinned: a newer one finds other things, on another day. */
const VERSION = '4.32.5';
/** What one command of an installation may take; without a network it fails sooner. */
const COMMAND_MS = 90_000;

export type Tool =
  { readonly found: true; readonly path: string } | { readonly found: false; readonly tried: readonly string[] };

/**
 * Finds schemathesis, or installs it below `cacheDir`. Never throws: what was tried is told. It waits, so that a test can
 * know before it is defined.
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
