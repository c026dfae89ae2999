// The workflow bundle. The build writes it beside the compiled code, so that a worker in production bundles nothing at its
// start.

import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { DataConverter } from '@temporalio/common';
import { bundleWorkflowCode } from '@temporalio/worker';

const BUNDLE_PATH = join(__dirname, 'workflow-bundle.js');
/** The same workflows with the interceptors that record spans. A separate file, so that workers without tracing run none. */
const TRACED_BUNDLE_PATH = join(__dirname, 'workflow-bundle-traced.js');
const WORKFLOWS_PATH = require.resolve('../workflows');

export interface WorkflowBundle {
  readonly code: string;
  /** Names this workflow code in histories. Short, because eleven events of a run hold it. */
  readonly buildId: string;
}

/**
 * Reads the prebuilt bundle, or builds one if there is none. `traced` selects the bundle with OpenTelemetry's interceptors. If
 * the data converter has code for the sandbox, the bundle is built at the start, because only the deployment has that code.
 */
export async function loadWorkflowBundle(converter?: DataConverter, traced = false): Promise<WorkflowBundle> {
  const { payloadConverterPath, failureConverterPath } = converter ?? {};
  const converterCode = {
    ...(payloadConverterPath === undefined ? {} : { payloadConverterPath }),
    ...(failureConverterPath === undefined ? {} : { failureConverterPath }),
  };
  const interceptors = traced ? [tracingInterceptors()] : [];
  const path = traced ? TRACED_BUNDLE_PATH : BUNDLE_PATH;
  if (Object.keys(converterCode).length > 0) return buildWorkflowBundle(interceptors, converterCode);
  return existsSync(path) ? named(await readFile(path, 'utf8')) : buildWorkflowBundle(interceptors);
}

function tracingInterceptors(): string {
  return require.resolve('@temporalio/interceptors-opentelemetry/lib/workflow-interceptors');
}

/** Bundles the workflow code for the sandbox. Fails if the code imports a module that the sandbox forbids. */
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
