// The audit log: actors, actions and times. Append-only. An entry is written in the transaction of its action. It holds
// names of fields and settings, never content or secrets.

import type { AuditEntry } from '../../generated/client';
import { newId } from '../db/ids';
import { byId, pageOf, type Page, type PageRequest } from '../db/paging';
import type { Reader, SqlTx } from '../db/transaction';

export const AUDIT_ACTIONS = [
  'company.created',
  'company.suspended',
  'company.resumed',
  'company.changed',
  'key.created',
  'key.rotated',
  'key.revoked',
  'model_key.created',
  'model_key.changed',
  'model_key.revoked',
  'model_key.tested',
  'agent.created',
  'agent.changed',
  'agent.paused',
  'agent.resumed',
  'room.created',
  'room.changed',
  'room.closed',
  'room.paused',
  'room.resumed',
  'invitation.created',
  'member.joined',
  'member.left',
  'roster.added',
  'roster.changed',
  'roster.removed',
  'run.cancelled',
  'held_action.approved',
  'held_action.declined',
  'redaction.made',
] as const;
export type AuditAction = (typeof AUDIT_ACTIONS)[number];

/** The actor: the operator, or a person of a company. */
export interface AuditActor {
  readonly kind: 'operator' | 'person';
  /** The id of the key that was used. */
  readonly id: string;
  readonly name: string;
  readonly companyId: string | null;
}

export interface AuditRecord {
  readonly action: AuditAction;
  readonly subject: string;
  readonly room?: string;
  /** The companies whose audit gets this record. Absent: the actor's own company. */
  readonly companies?: readonly string[];
  readonly details?: Record<string, unknown>;
}

/** Appends a record to the audit of each of its companies, in the caller's transaction. */
export async function appendAudit(tx: SqlTx, actor: AuditActor, record: AuditRecord): Promise<void> {
  const own = actor.companyId === null ? [] : [actor.companyId];
  for (const companyId of new Set(record.companies ?? own)) {
    await tx.$executeRaw`
      INSERT INTO audit_entries (id, company_id, actor_kind, actor_id, actor_name, actor_company_id, action, subject_id,
                                 room_id, details)
      VALUES (${newId('audit')}, ${companyId}, ${actor.kind}, ${actor.id}, ${actor.name}, ${actor.companyId},
              ${record.action}, ${record.subject}, ${record.room ?? null},
              ${JSON.stringify(record.details ?? {})}::jsonb)`;
  }
}

export interface AuditFilter {
  readonly action: AuditAction | undefined;
  readonly subject: string | undefined;
  readonly room: string | undefined;
  /** Bounds of the time; `until` is excluded. */
  readonly since: Date | undefined;
  readonly until: Date | undefined;
}

/** A company's audit, by id, which is the order of time. */
export async function listAudit(
  reader: Reader,
  companyId: string,
  filter: AuditFilter,
  page: PageRequest,
): Promise<Page<AuditEntry>> {
  const { where, ...rest } = byId(page);
  const { action, subject, room, since, until } = filter;
  const entries = await reader.auditEntry.findMany({
    where: {
      ...where,
      companyId,
      ...(action !== undefined && { action }),
      ...(subject !== undefined && { subjectId: subject }),
      ...(room !== undefined && { roomId: room }),
      at: { ...(since !== undefined && { gte: since }), ...(until !== undefined && { lt: until }) },
    },
    ...rest,
  });
  return pageOf(entries, page, (entry) => entry.id);
}

/** An entry for the admins of its company. Of a person of another company, it shows the company only. */
export function auditResource(entry: AuditEntry): Record<string, unknown> {
  const own = entry.actorCompanyId === entry.companyId;
  return {
    id: entry.id,
    at: entry.at.toISOString(),
    actor: {
      kind: entry.actorKind,
      id: own ? entry.actorId : null,
      name: own ? entry.actorName : null,
      company: entry.actorCompanyId,
    },
    action: entry.action,
    subject: entry.subjectId,
    room: entry.roomId,
    details: entry.details,
  };
}
