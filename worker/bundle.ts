// The workflow bundle: built once beside the compiled code, so that a worker in production bundles nothing at its start.

import { existsSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { bundleWorkflowCode, type WorkflowBundleOption } from '@temporalio/worker';

const BUNDLE_PATH = join(__dirname, 'workflow-bundle.js');
const WORKFLOWS_PATH = require.resolve('../workflows');

/** The prebuilt bundle where there is one, else one made now. */
export async function loadWorkflowBundle(): Promise<WorkflowBundleOption> {
  if (existsSync(BUNDLE_PATH)) return { codePath: BUNDLE_PATH };
  return buildWorkflowBundle();
}

/** Bundles the workflow code as the sandbox will run it; fails where it imports what the sandbox may not. */
export async function buildWorkflowBundle(): Promise<{ code: string }> {
  return bundleWorkflowCode({
    workflowsPath: WORKFLOWS_PATH,
    logger: { log() {}, trace() {}, debug() {}, info() {}, warn() {}, error: console.error },
  });
}

async function main(): Promise<void> {
  const { code } = await buildWorkflowBundle();
  await writeFile(BUNDLE_PATH, code);
  console.log(`workflow bundle: ${Math.round(code.length / 1024)} kB`);
}

if (require.main === module) void main();
