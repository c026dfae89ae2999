// One run of schemathesis against a served API: made-up requests by its document, and every answer held against it.

import { spawn } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

export interface Target {
  readonly url: string;
  readonly key: string;
  /** Values of path parameters that exist, so that more than 404 is met. */
  readonly known: Readonly<Record<string, string>>;
  /** Requests made up for each operation and phase. */
  readonly examples: number;
  readonly seed: number;
}

/**
 * What is not asked of the API. JSON Schema can't say all that a value must be (a slug in its one spelling, an agent that is
 * on the roster), so a body by the schema may still be refused.
 */
const UNASKED = ['positive_data_acceptance'];

/** Runs it to its end. `output` is what a person reads of it; `code` is 0 when it found nothing. */
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
        UNASKED.join(','),
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
