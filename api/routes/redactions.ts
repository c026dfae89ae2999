// Redaction: erases the content and keeps the record that it was written.

import { redact } from '../../prisma/store/lifecycle/redaction';
import { authorOf } from '../middleware/caller';
import { ok, writeRoute, type Route } from '../route';
import { redactionBody } from '../schemas/bodies';
import { shownRedaction } from '../schemas/usage-answers';

export const redactionRoutes: readonly Route[] = [
  writeRoute({
    method: 'post',
    path: '/v1/rooms/:room/redactions',
    role: 'admin',
    summary: 'Erase the content of a message, task, memory entry or file; the record of it stays',
    success: ok(shownRedaction),
    body: redactionBody,
    audit: ({ ids }, { subject, kind }) => ({
      action: 'redaction.made',
      subject: String(subject),
      room: ids.room,
      details: { kind },
    }),
    async handle(tx, { caller, ids, body }) {
      const { subject, kind, redactedAt, before } = await redact(tx, ids.room, authorOf(caller), body.subject);
      const shown = { room: ids.room, subject, kind, redacted_at: redactedAt.toISOString() };
      return { status: 200, body: shown, repeated: before };
    },
  }),
];
