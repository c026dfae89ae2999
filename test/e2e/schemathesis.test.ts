// schemathesis sends generated requests to the API and compares the answers with the OpenAPI document. The number of requests
// and the seed are fixed; `npm run schemathesis` sends more, with another seed each time.

import { startTestApi, type TestApi } from '../support/api';
import { makeKnown } from '../schemathesis/known';
import { runSchemathesis } from '../schemathesis/run';
import { findSchemathesis } from '../schemathesis/tool';
import { CLI_CACHE } from '../../worker/local/project-root';

const tool = findSchemathesis(CLI_CACHE, process.env['SCHEMATHESIS_PATH']);
if (!tool.found) console.warn(`SKIPPED: schemathesis is not available here.\n  ${tool.tried.join('\n  ')}`);

let api: TestApi;
beforeAll(async () => {
  api = await startTestApi();
});
afterAll(() => api.close());

(tool.found ? test : test.skip)('generated requests cause no error, and answers match the document', async () => {
  const made = await makeKnown(api);
  const path = tool.found ? tool.path : '';
  const { code, output } = await runSchemathesis(path, { url: api.url, ...made, examples: 5, seed: 1 });
  // Proves that requests were sent: a run without requests would also report no failure.
  expect(output).toMatch(/Tested: [1-9]\d+/);
  expect(code === 0 ? '' : output).toBe('');
  expect(api.logged()).not.toContain('request failed');
});
