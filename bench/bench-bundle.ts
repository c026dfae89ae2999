// The workflows of the bench as the sandbox runs them: bundled once by the bench, read by its workers.

import { createHash } from 'node:crypto';
import { readFile, writeFile } from 'node:fs/promises';
import { bundleWorkflowCode } from '@temporalio/worker';
import type { WorkflowBundle } from '../worker/bundle';

/** The variable by which a worker of the bench learns where its bundle is. */
export const BUNDLE_VARIABLE = 'BENCH_BUNDLE';

export async function writeBenchBundle(path: string): Promise<void> {
  const { code } = await bundleWorkflowCode({
    workflowsPath: require.resolve('./bench-workflows'),
    logger: { log() {}, trace() {}, debug() {}, info() {}, warn() {}, error: console.error },
  });
  await writeFile(path, code);
}

/** The build id is as long as ours, since it stands in every history. */
export async function readBenchBundle(env: Readonly<Record<string, string | undefined>>): Promise<WorkflowBundle> {
  const code = await readFile(env[BUNDLE_VARIABLE] ?? '', 'utf8');
  return { code, buildId: createHash('sha256').update(code).digest('hex').slice(0, 8) };
}
