// Schemas of the bodies that decide a held action and cancel a run.

import { z } from 'zod';
import { DECISIONS } from '../../workflows/contract';
import { oneOf } from './fields';

export const decisionBody = z.strictObject({
  decision: oneOf(DECISIONS),
  hash: z.string('text').regex(/^[0-9a-f]{64}$/, 'the hash of the action, 64 hexadecimal digits'),
});

const REASON_LIMIT = 500;

export const cancelBody = z
  .strictObject({
    reason: z
      .string('text')
      .transform((given) => given.trim())
      .refine((reason) => reason !== '' && reason.length <= REASON_LIMIT, `text of 1 to ${REASON_LIMIT} characters`)
      .optional(),
  })
  .optional();
