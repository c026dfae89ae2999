// The folder of the compiled code that tests, benchmarks and examples start as processes.

import { join } from 'node:path';
import { PROJECT_ROOT } from '../../worker/local/project-root';

/** The output of `npm run build:all`: the product, tests, benchmarks and examples. `dist` has only the product. */
export const COMPILED = join(PROJECT_ROOT, 'build');
