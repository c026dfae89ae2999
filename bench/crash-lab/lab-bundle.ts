// The workflow bundle of all ways, with the interceptor that reports which activity results Temporal has stored. The lab
// writes it once, and its workers read it.

import { createHash } from 'node:crypto';
import { readFile, writeFile } from 'node:fs/promises';
import { bundleWorkflowCode } from '@temporalio/worker';
import type { WorkflowBundle } from '../../worker/bundle';

export async function writeLabBundle(path: string): Promise<void> {
  const { code } = await bundleWorkflowCode({
    workflowsPath: require.resolve('./lab-workflows'),
    workflowInterceptorModules: [require.resolve('../../test/support/crash-interceptor')],
    logger: { log() {}, trace() {}, debug() {}, info() {}, warn() {}, error: console.error },
  });
  await writeFile(path, code);
}

/** The build id has the same length as the product's, because it is part of every history. */
export async function readLabBundle(path: string): Promise<WorkflowBundle> {
  const code = await readFile(path, 'utf8');
  return { code, buildId: createHash('sha256').update(code).digest('hex').slice(0, 8) };
}
