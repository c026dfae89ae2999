// The command `doctor`: prints every check, and a fix for each check that failed.

import type { RunCommand } from '../commands';
import { toolEnvironment } from '../tool-environment';
import { examine } from './doctor';
import { isAllWell, printFindings } from './findings';

export const runDoctor: RunCommand = async ({ env, values }) => {
  const findings = await examine(await toolEnvironment(env), {
    installSearchAttributes: values['install-search-attributes'] === true,
  });
  const ok = isAllWell(findings);
  console.log(values['json'] === true ? JSON.stringify({ ok, findings }, null, 2) : printFindings(findings));
  return ok ? 0 : 1;
};
