// The workflow bundle for workers in the process of a test. Bundling costs seconds of CPU, so the first test file that needs
// the bundle saves it in the folder of global-setup.ts for the whole run of jest.

import { randomBytes } from 'node:crypto';
import { existsSync } from 'node:fs';
import { readFile, rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { DataConverter } from '@temporalio/common';
import { loadWorkflowBundle, type WorkflowBundle } from '../../worker/bundle';

/** The folder for the bundles of this run of jest. It is removed at the end, so that no bundle of old code is used. */
const FOLDER = process.env['TEST_BUNDLE_FOLDER'];

/** Like `loadWorkflowBundle`. A run of jest runs the sources and has no prebuilt bundle. */
export async function sharedWorkflowBundle(converter?: DataConverter, traced = false): Promise<WorkflowBundle> {
  // The code of a converter is part of the bundle, and each test file may have another converter.
  const isShared = converter?.payloadConverterPath === undefined && converter?.failureConverterPath === undefined;
  if (FOLDER === undefined || !isShared) return loadWorkflowBundle(converter, traced);
  const path = join(FOLDER, traced ? 'traced.json' : 'plain.json');
  if (existsSync(path)) return JSON.parse(await readFile(path, 'utf8')) as WorkflowBundle;
  const bundle = await loadWorkflowBundle(converter, traced);
  // Two jest workers may build it at the same time: each writes a complete file, and the files are equal.
  const written = `${path}.${randomBytes(6).toString('hex')}`;
  await writeFile(written, JSON.stringify(bundle));
  await rename(written, path);
  return bundle;
}
