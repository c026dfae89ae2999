// Schemas of the answers about usage, audit and redactions.

import { z } from 'zod';
import { AUDIT_ACTIONS } from '../../prisma/store/access/audit';
import { at, count, shownId } from './answers';

/** A number, or text above 2^53, so that it is exact. */
export const tokens = z.union([count, z.string()]);

const tally = z.record(z.string(), count);
const counted = { input_tokens: tokens, output_tokens: tokens, uncounted_requests: count };
const money = z
  .object({ amounts: z.record(z.string(), z.string()).nullable(), unpriced_requests: count })
  .meta({ id: 'Money', description: '`amounts` has a decimal per currency. It is null when a price is not known.' });

export const runUsage = z.object({ requests: count, ...counted, money });

const runs = z.object({ total: count, open: count, endings: tally });
const suppressed = z.object({ total: count, reasons: tally });
const own = {
  runs,
  wakes_suppressed: suppressed,
  requests: z.object({ total: count, outcomes: tally }),
  tokens: z.object(counted),
  money,
};
const budget = z
  .object({ day: z.iso.date(), tokens_per_day: count, settled: tokens, reserved: tokens, left: tokens })
  .nullable();

export const roomUsage = z.object({
  room: shownId('room'),
  since: at,
  until: at,
  runs,
  wakes_suppressed: suppressed,
  own: z.object(own),
});
export const agentUsage = z.object({ agent: shownId('agent'), since: at, until: at, ...own, budget });
export const companyUsage = z.object({ company: shownId('co'), since: at, until: at, ...own, budget });

export const auditEntry = z
  .object({
    id: shownId('audit'),
    at,
    actor: z.object({
      kind: z.enum(['operator', 'person']),
      id: shownId('key').nullable(),
      name: z.string().nullable(),
      company: shownId('co').nullable(),
    }),
    action: z.enum(AUDIT_ACTIONS),
    subject: z.string(),
    room: shownId('room').nullable(),
    details: z.record(z.string(), z.unknown()),
  })
  .meta({ id: 'AuditEntry' });

export const shownRedaction = z
  .object({
    room: shownId('room'),
    subject: z.string(),
    kind: z.enum(['message', 'task', 'response', 'memory', 'file']),
    redacted_at: at,
  })
  .meta({ id: 'Redaction' });
