// The caller of a request, and the roles that a route can require. Each route names its role.

import type { AuditActor } from '../../prisma/store/access/audit';
import type { Author } from '../../prisma/store/rooms/room-draft';
import type { KeyHolder } from '../../prisma/store/access/keys';
import type { Viewer } from '../../prisma/store/access/viewer';
import { Problem } from '../problems';

export type OperatorCaller = Extract<KeyHolder, { kind: 'operator' }>;
export type PersonCaller = Extract<KeyHolder, { kind: 'person' }>;
export type AgentCaller = Extract<KeyHolder, { kind: 'agent' }>;
export type CompanyCaller = Exclude<KeyHolder, { kind: 'operator' }>;
export type Caller = KeyHolder;

/**
 * The role that a route requires. `admin` and `person` (an admin or a member) are people; `company` is any key of a
 * company: a person's, a service's or an agent's; `agent` is an agent's key.
 */
export type Role = 'operator' | 'admin' | 'person' | 'agent' | 'company' | 'anyone';

export type CallerFor<R extends Role> = {
  operator: OperatorCaller;
  admin: PersonCaller;
  person: PersonCaller;
  agent: AgentCaller;
  company: CompanyCaller;
  anyone: Caller;
}[R];

/** Answers with 403 unless the caller has the role. */
export function requireRole<R extends Role>(role: R, caller: Caller): asserts caller is CallerFor<R> {
  if (!hasRole(role, caller)) throw new Problem('not_allowed', `this request needs ${REQUIRED_KEY[role]}`);
}

const REQUIRED_KEY: Readonly<Record<Role, string>> = {
  operator: "the operator's key",
  admin: 'the key of an admin',
  person: 'the key of a person',
  agent: 'the key of an agent',
  company: 'a key of a company',
  anyone: 'a key',
};

function hasRole(role: Role, caller: Caller): boolean {
  switch (role) {
    case 'operator':
      return caller.kind === 'operator';
    case 'admin':
      return caller.kind === 'person' && caller.role === 'admin';
    case 'person':
      return caller.kind === 'person';
    case 'agent':
      return caller.kind === 'agent';
    case 'company':
      return caller.kind !== 'operator';
    case 'anyone':
      return true;
  }
}

/** The author of what a caller writes: for an agent's key the agent, for any other key the key itself. */
export function authorOf(caller: CompanyCaller): Author {
  const { companyId } = caller;
  return caller.kind === 'agent'
    ? { kind: 'agent', id: caller.agentId, name: caller.agentName, companyId }
    : { kind: caller.kind, id: caller.keyId, name: caller.name, companyId };
}

/** The viewer whose rights decide what a caller may read. */
export function viewerOf(caller: CompanyCaller): Viewer {
  return { companyId: caller.companyId, agentId: caller.kind === 'agent' ? caller.agentId : null };
}

/** The actor of an audit entry. Only routes for the operator and for people are audited. */
export function actorOf(caller: Caller): AuditActor {
  switch (caller.kind) {
    case 'operator':
      return { kind: caller.kind, id: caller.keyId, name: 'operator', companyId: null };
    case 'person':
      return { kind: caller.kind, id: caller.keyId, name: caller.name, companyId: caller.companyId };
    case 'service':
    case 'agent':
      throw new Error('actions of a service or an agent are in the feed, not in the audit');
  }
}
