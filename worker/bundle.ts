// The workflow bundle: built once beside the compiled code, so that a worker in production bundles nothing at its start.

import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { bundleWorkflowCode } from '@temporalio/worker';

const BUNDLE_PATH = join(__dirname, 'workflow-bundle.js');
/** The same workflow with the interceptors that record spans. Apart, so that who does not trace runs nothing of them. */
const TRACED_BUNDLE_PATH = join(__dirname, 'workflow-bundle-traced.js');
const WORKFLOWS_PATH = require.resolve('../workflows');

export interface WorkflowBundle {
  readonly code: string;
  /** Names this workflow code in histories. Short: it stands in eleven events of a run. */
  readonly buildId: string;
}

/** The prebuilt bundle where there is one, else one made now. */
export async function loadWorkflowBundle(traced = false): Promise<WorkflowBundle> {
  const path = traced ? TRACED_BUNDLE_PATH : BUNDLE_PATH;
  if (existsSync(path)) return named(await readFile(path, 'utf8'));
  return buildWorkflowBundle(traced ? [tracingInterceptors()] : []);
}

function tracingInterceptors(): string {
  return require.resolve('@temporalio/interceptors-opentelemetry/lib/workflow-interceptors');
}

/** Bundles the workflow code as the sandbox will run it; fails where it imports what the sandbox may not. */
export async function buildWorkflowBundle(interceptorModules: string[] = []): Promise<WorkflowBundle> {
  const { code } = await bundleWorkflowCode({
    workflowsPath: WORKFLOWS_PATH,
    workflowInterceptorModules: interceptorModules,
    logger: { log() {}, trace() {}, debug() {}, info() {}, warn() {}, error: console.error },
  });
  return named(code);
}

function named(code: string): WorkflowBundle {
  return { code, buildId: createHash('sha256').update(code).digest('hex').slice(0, 8) };
}

async function main(): Promise<void> {
  const { code } = await buildWorkflowBundle();
  await writeFile(BUNDLE_PATH, code);
  const traced = await buildWorkflowBundle([tracingInterceptors()]);
  await writeFile(TRACED_BUNDLE_PATH, traced.code);
  const kB = (text: string): string => `${Math.round(text.length / 1024)} kB`;
  console.log(`workflow bundle: ${kB(code)}, with tracing ${kB(traced.code)}`);
}

if (require.main === module) void main();
