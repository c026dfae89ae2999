// The audit of a company, for its admins: which person or operator did what, and when.

import { AUDIT_ACTIONS, auditResource, listAudit } from '../../prisma/store/access/audit';
import { ok, readRoute, type Route } from '../route';
import { pageOf } from '../schemas/answers';
import { idOf, instant, label, oneOf } from '../schemas/fields';
import { auditEntry } from '../schemas/usage-answers';
import { listBody, listQuery, pageRequest } from '../schemas/lists';

export const auditRoutes: readonly Route[] = [
  readRoute({
    path: '/v1/audit',
    role: 'admin',
    summary: 'List the audit: actions of people and the operator',
    success: ok(pageOf(auditEntry)),
    query: listQuery('audit').extend({
      action: oneOf(AUDIT_ACTIONS).optional(),
      subject: label.optional(),
      room: idOf('room').optional(),
      since: instant.optional(),
      until: instant.optional(),
    }),
    async handle(db, { caller, query }) {
      const { action, subject, room, since, until } = query;
      const filter = { action, subject, room, since, until };
      const entries = await listAudit(db, caller.companyId, filter, pageRequest(query));
      return { status: 200, body: listBody(entries, auditResource) };
    },
  }),
];
