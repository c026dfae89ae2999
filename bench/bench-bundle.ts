// The workflow bundle of the bench. The bench writes it once, and its workers read it.

import { createHash } from 'node:crypto';
import { readFile, writeFile } from 'node:fs/promises';
import { bundleWorkflowCode } from '@temporalio/worker';
import type { WorkflowBundle } from '../worker/bundle';

/** The environment variable with the path of the bundle. */
export const BUNDLE_VARIABLE = 'BENCH_BUNDLE';

export async function writeBenchBundle(path: string): Promise<void> {
  const { code } = await bundleWorkflowCode({
    workflowsPath: require.resolve('./bench-workflows'),
    logger: { log() {}, trace() {}, debug() {}, info() {}, warn() {}, error: console.error },
  });
  await writeFile(path, code);
}

/** The build id has the same length as the product's, because it is part of every history. */
export async function readBenchBundle(env: Readonly<Record<string, string | undefined>>): Promise<WorkflowBundle> {
  const code = await readFile(env[BUNDLE_VARIABLE] ?? '', 'utf8');
  return { code, buildId: createHash('sha256').update(code).digest('hex').slice(0, 8) };
}
