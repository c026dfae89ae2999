// `npm run schemathesis`: searches for requests that break the API, with its OpenAPI document. Starts the stack in a temporary
// folder, or tests a running API with `--url URL --key KEY`. `--examples N` sets the number of requests, `--seed N` the seed.
//
// Exit code: 0 if it found nothing, 1 if it found a failure, 2 if it could not run.

import { randomBytes } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { startStack } from '../../worker/local/stack';
import { createClient } from '../support/api';
import { makeKnown } from './known';
import { runSchemathesis, type Target } from './run';
import { findSchemathesis } from './tool';
import { CLI_CACHE } from '../../worker/local/project-root';

async function main(): Promise<number> {
  const { values } = parseArgs({
    options: {
      url: { type: 'string' },
      key: { type: 'string' },
      examples: { type: 'string', default: '100' },
      seed: { type: 'string', default: String(Date.now() % 1_000_000) },
    },
  });
  const tool = findSchemathesis(CLI_CACHE, process.env['SCHEMATHESIS_PATH']);
  if (!tool.found) {
    console.error(`schemathesis is not available:\n  ${tool.tried.join('\n  ')}`);
    return 2;
  }
  const test = async (target: Pick<Target, 'url' | 'key' | 'known'>): Promise<number> => {
    const { code, output } = await runSchemathesis(tool.path, {
      ...target,
      examples: Number(values.examples),
      seed: Number(values.seed),
    });
    console.log(output);
    return code === 0 ? 0 : 1;
  };
  if (values.url !== undefined) return test({ url: values.url, key: values.key ?? '', known: {} });

  const folder = await mkdtemp(join(tmpdir(), 'durable-room-schemathesis-'));
  const operatorKey = randomBytes(32).toString('hex');
  const stack = await startStack({
    dataFolder: folder,
    env: {
      ...process.env,
      OPERATOR_KEY: operatorKey,
      API_PORT: '0',
      WORKER_PORT: '0',
      RATE_LIMIT_PER_MINUTE: '1000000',
      LOG_LEVEL: 'error',
    },
    services: { cliCacheDir: CLI_CACHE },
    log: (line) => console.log(`  ${line}`),
  });
  try {
    const { apiUrl: url } = stack;
    const made = await makeKnown({ operatorKey, client: (token) => createClient(url, token) });
    return await test({ url, ...made });
  } finally {
    await stack.stop();
    await rm(folder, { recursive: true, force: true });
  }
}

main().then(
  (code) => process.exit(code),
  (error: unknown) => {
    console.error(error);
    process.exit(2);
  },
);
