// Schema of the query of the usage routes.

import { z } from 'zod';
import { instant } from './fields';

export const usageQuery = z.strictObject({ since: instant.optional(), until: instant.optional() });
