// Runs schemathesis once against a served API: it generates requests from the document and checks every answer against it.

import { spawn } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

export interface Target {
  readonly url: string;
  readonly key: string;
  /** Values of path parameters that exist, so that not every answer is 404. */
  readonly known: Readonly<Record<string, string>>;
  /** The number of generated requests for each operation and phase. */
  readonly examples: number;
  readonly seed: number;
}

/**
 * Checks that the API does not pass. JSON Schema can't express every rule (a normalized slug, an agent on the roster), so the
 * API may refuse a body that matches the schema.
 */
const EXCLUDED_CHECKS = ['positive_data_acceptance'];

/** Runs schemathesis to its end. `output` is its report; `code` is 0 if it found nothing. */
export async function runSchemathesis(tool: string, target: Target): Promise<{ code: number | null; output: string }> {
  const folder = await mkdtemp(join(tmpdir(), 'durable-room-schemathesis-'));
  try {
    const config = join(folder, 'schemathesis.toml');
    const parameters = Object.entries(target.known).map(([name, value]) => `"path.${name}" = ${JSON.stringify(value)}`);
    await writeFile(config, `[parameters]\n${parameters.join('\n')}\n`);
    const child = spawn(
      tool,
      [
        '--config-file',
        config,
        'run',
        `${target.url}/openapi.json`,
        '--header',
        `Authorization: Bearer ${target.key}`,
        '--max-examples',
        String(target.examples),
        '--seed',
        String(target.seed),
        '--exclude-checks',
        EXCLUDED_CHECKS.join(','),
        '--continue-on-failure',
        '--no-color',
      ],
      { cwd: folder, stdio: ['ignore', 'pipe', 'pipe'] },
    );
    let output = '';
    child.stdout.on('data', (chunk: Buffer) => (output += chunk.toString()));
    child.stderr.on('data', (chunk: Buffer) => (output += chunk.toString()));
    const code = await new Promise<number | null>((resolve, reject) => {
      child.once('error', reject);
      child.once('close', resolve);
    });
    return { code, output: output.replaceAll(target.key, '[key]') };
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}
