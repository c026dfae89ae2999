// Where the compiled code is that tests, benchmarks and examples start as processes of their own.

import { join } from 'node:path';
import { PROJECT_ROOT } from '../../worker/local/project-root';

/** Everything, compiled by `npm run build:all`: the product, and the programs around it. The product alone is in dist. */
export const COMPILED = join(PROJECT_ROOT, 'build');
