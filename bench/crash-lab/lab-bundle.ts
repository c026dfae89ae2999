// The workflow code of every way, with the interceptor that says which activity Temporal has the result of: bundled once by
// the lab, read by its workers.

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

/** The build id is as long as the room's, since it stands in every history. */
export async function readLabBundle(path: string): Promise<WorkflowBundle> {
  const code = await readFile(path, 'utf8');
  return { code, buildId: createHash('sha256').update(code).digest('hex').slice(0, 8) };
}
