// The workflow bundle: built once beside the compiled code, so that a worker in production bundles nothing at its start.

import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { DataConverter } from '@temporalio/common';
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

/**
 * The prebuilt bundle where there is one, else one made now; `traced`: with OpenTelemetry's interceptors in it. A data
 * converter that brings code of its own for the sandbox is bundled with it, at the start: only its owner's deployment has
 * that code.
 */
export async function loadWorkflowBundle(converter?: DataConverter, traced = false): Promise<WorkflowBundle> {
  const { payloadConverterPath, failureConverterPath } = converter ?? {};
  const ownCode = {
    ...(payloadConverterPath === undefined ? {} : { payloadConverterPath }),
    ...(failureConverterPath === undefined ? {} : { failureConverterPath }),
  };
  const interceptors = traced ? [tracingInterceptors()] : [];
  const path = traced ? TRACED_BUNDLE_PATH : BUNDLE_PATH;
  if (Object.keys(ownCode).length > 0) return buildWorkflowBundle(interceptors, ownCode);
  return existsSync(path) ? named(await readFile(path, 'utf8')) : buildWorkflowBundle(interceptors);
}

function tracingInterceptors(): string {
  return require.resolve('@temporalio/interceptors-opentelemetry/lib/workflow-interceptors');
}

/** Bundles the workflow code as the sandbox will run it; fails where it imports what the sandbox may not. */
export async function buildWorkflowBundle(
  interceptorModules: string[] = [],
  converter: Pick<DataConverter, 'payloadConverterPath' | 'failureConverterPath'> = {},
): Promise<WorkflowBundle> {
  const { code } = await bundleWorkflowCode({
    workflowsPath: WORKFLOWS_PATH,
    workflowInterceptorModules: interceptorModules,
    preloadModules: [WORKFLOWS_PATH],
    ...converter,
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
