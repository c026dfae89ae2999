// schemathesis finds nothing: a bounded look at the served API by its own document, the same at every run. `npm run
// schemathesis` looks longer, and elsewhere each time.

import { startTestApi, type TestApi } from '../support/api';
import { makeKnown } from '../schemathesis/known';
import { runSchemathesis } from '../schemathesis/run';
import { findSchemathesis } from '../schemathesis/tool';
import { CLI_CACHE } from '../../worker/local/project-root';

const tool = findSchemathesis(CLI_CACHE, process.env['SCHEMATHESIS_PATH']);
if (!tool.found) console.warn(`SKIPPED: schemathesis can't be had here.\n  ${tool.tried.join('\n  ')}`);

let api: TestApi;
beforeAll(async () => {
  api = await startTestApi();
});
afterAll(() => api.close());

(tool.found ? test : test.skip)('made-up requests break nothing, and no answer differs from the document', async () => {
  const made = await makeKnown(api);
  const path = tool.found ? tool.path : '';
  const { code, output } = await runSchemathesis(path, { url: api.url, ...made, examples: 5, seed: 1 });
  // Looked at all: a run that asked nothing would find nothing too.
  expect(output).toMatch(/Tested: [1-9]\d+/);
  expect(code === 0 ? '' : output).toBe('');
  expect(api.logged()).not.toContain('request failed');
});
