// `npm run doctor`: what is missing, and the command that mends it. Exit code 0 when all is well, 1 when not, 2 when it was
// called wrongly.

import { parseArgs } from 'node:util';
import { toolEnvironment } from '../tool-environment';
import { examine } from './doctor';
import { isAllWell, printFindings } from './findings';

const USAGE = 'usage: npm run doctor -- [--json] [--install-search-attributes]';

async function main(): Promise<void> {
  let values: { json?: boolean; 'install-search-attributes'?: boolean };
  try {
    const options = { json: { type: 'boolean' }, 'install-search-attributes': { type: 'boolean' } } as const;
    ({ values } = parseArgs({ options }));
  } catch {
    console.error(USAGE);
    process.exitCode = 2;
    return;
  }
  const env = await toolEnvironment(process.env);
  const findings = await examine(env, { installSearchAttributes: values['install-search-attributes'] === true });
  const ok = isAllWell(findings);
  console.log(values.json === true ? JSON.stringify({ ok, findings }, null, 2) : printFindings(findings));
  process.exitCode = ok ? 0 : 1;
}

main().catch((error: unknown) => {
  console.error(error instanceof Error ? error.message : error);
  process.exitCode = 1;
});
