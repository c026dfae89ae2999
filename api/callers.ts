// Who calls, and who may call what. The table of roles; which route asks for which stands at the route.

import type { AuditActor } from '../prisma/store/access/audit';
import type { Author } from '../prisma/store/rooms/room-draft';
import type { KeyHolder } from '../prisma/store/access/keys';
import type { Viewer } from '../prisma/store/access/viewer';
import { Problem } from './problems';

export type OperatorCaller = Extract<KeyHolder, { kind: 'operator' }>;
export type PersonCaller = Extract<KeyHolder, { kind: 'person' }>;
export type AgentCaller = Extract<KeyHolder, { kind: 'agent' }>;
export type CompanyCaller = Exclude<KeyHolder, { kind: 'operator' }>;
export type Caller = KeyHolder;

/**
 * Who may call a route. `admin` and `person` (an admin or a member) are people; `company` is any key of a company: its
 * people, services and agents; `agent` an agent's own.
 */
export type Who = 'operator' | 'admin' | 'person' | 'agent' | 'company' | 'anyone';

export type CallerFor<W extends Who> = {
  operator: OperatorCaller;
  admin: PersonCaller;
  person: PersonCaller;
  agent: AgentCaller;
  company: CompanyCaller;
  anyone: Caller;
}[W];

/** Answers with 403 unless the caller is one of those. */
export function assertMay<W extends Who>(who: W, caller: Caller): asserts caller is CallerFor<W> {
  if (!isOneOf(who, caller)) throw new Problem('not_allowed', `this needs ${NEEDED[who]}`);
}

const NEEDED: Readonly<Record<Who, string>> = {
  operator: "the operator's key",
  admin: 'the key of an admin',
  person: 'the key of a person',
  agent: 'the key of an agent',
  company: 'a key of a company',
  anyone: 'a key',
};

function isOneOf(who: Who, caller: Caller): boolean {
  switch (who) {
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

/** As whom a caller writes: an agent's key as that agent, any other as itself. */
export function authorOf(caller: CompanyCaller): Author {
  const { companyId } = caller;
  return caller.kind === 'agent'
    ? { kind: 'agent', id: caller.agentId, name: caller.agentName, companyId }
    : { kind: caller.kind, id: caller.keyId, name: caller.name, companyId };
}

/** As whom a caller reads. */
export function viewerOf(caller: CompanyCaller): Viewer {
  return { companyId: caller.companyId, agentId: caller.kind === 'agent' ? caller.agentId : null };
}

/** Who the audit says it was. Only the operator and people do what is audited. */
export function actorOf(caller: Caller): AuditActor {
  switch (caller.kind) {
    case 'operator':
      return { kind: caller.kind, id: caller.keyId, name: 'operator', companyId: null };
    case 'person':
      return { kind: caller.kind, id: caller.keyId, name: caller.name, companyId: caller.companyId };
    case 'service':
    case 'agent':
      throw new Error('what a service or an agent does is in the feed, not in the audit');
  }
}
