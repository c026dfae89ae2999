// The workflow bundle for workers in a test's own process. Bundling costs seconds of CPU: of the code under test it is done
// once for a whole run of jest, by the first file that needs it, and kept where globalSetup said.

import { randomBytes } from 'node:crypto';
import { existsSync } from 'node:fs';
import { readFile, rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { DataConverter } from '@temporalio/common';
import { loadWorkflowBundle, type WorkflowBundle } from '../../worker/bundle';

/** Where this run of jest keeps its bundles; removed with it, so that none outlives the code that it was made of. */
const FOLDER = process.env['TEST_BUNDLE_FOLDER'];

/** As `loadWorkflowBundle`, whose prebuilt bundle a run of jest has none of: it runs the sources. */
export async function sharedWorkflowBundle(converter?: DataConverter, traced = false): Promise<WorkflowBundle> {
  // A converter's own code is bundled with the workflow, and another file may bring another.
  const isShared = converter?.payloadConverterPath === undefined && converter?.failureConverterPath === undefined;
  if (FOLDER === undefined || !isShared) return loadWorkflowBundle(converter, traced);
  const path = join(FOLDER, traced ? 'traced.json' : 'plain.json');
  if (existsSync(path)) return JSON.parse(await readFile(path, 'utf8')) as WorkflowBundle;
  const bundle = await loadWorkflowBundle(converter, traced);
  // Two may make it at the same time: each writes a whole one, and they are the same.
  const written = `${path}.${randomBytes(6).toString('hex')}`;
  await writeFile(written, JSON.stringify(bundle));
  await rename(written, path);
  return bundle;
}
