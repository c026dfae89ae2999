// The gates of a wake: the conditions under which an agent may not answer a message. Each gate is defined once, for a
// row in TypeScript and for a row in SQL; a wake meets its gates when it is created, when it is delivered, and when it
// is claimed.

import type { SuppressedReason } from '../../../workflows/contract';
import { Prisma } from '../../generated/client';

/** Facts that may still change between delivery and claim. */
export interface RevocationFacts {
  readonly roomClosed: boolean;
  readonly roomPaused: boolean;
  readonly onRoster: boolean;
  readonly isMember: boolean;
  readonly companySuspended: boolean;
  readonly agentPaused: boolean;
  /** The agent has no usable model key: none, revoked, or refused by the provider in its newest version. */
  readonly keyRejected: boolean;
}

/** Facts that the delivery checks before it spends the room's allowance and the budgets. */
export interface DeliveryFacts extends RevocationFacts {
  readonly hop: number;
  readonly hopLimit: number;
}

/** All facts about a wake's agent and room that its gates read. */
export interface GateFacts extends DeliveryFacts {
  readonly allowance: number;
  /** The tokens used today leave too few for another run. Reservations of runs under way are not included. */
  readonly budgetUsedUp: boolean;
}

/** Of a key `k` that may be missing. */
export const KEY_REJECTED = Prisma.sql`
  (k.id IS NULL OR k.revoked_at IS NOT NULL OR k.rejected_version IS NOT DISTINCT FROM k.version)`;

/** Each revocation fact as a condition on a row of `GATED_WAKES`. None of them is ever null. */
const FACT_CONDITIONS: Readonly<Record<keyof RevocationFacts, Prisma.Sql>> = {
  roomClosed: Prisma.sql`r.closed_at IS NOT NULL`,
  roomPaused: Prisma.sql`r.paused_at IS NOT NULL`,
  isMember: Prisma.sql`m.left_at IS NULL`,
  onRoster: Prisma.sql`ra.removed_at IS NULL`,
  agentPaused: Prisma.sql`a.paused_at IS NOT NULL`,
  companySuspended: Prisma.sql`c.suspended_at IS NOT NULL`,
  keyRejected: KEY_REJECTED,
};

interface Gate<Facts> {
  readonly isShut: (facts: Facts) => boolean;
}

/** A gate that one statement also checks for many rows of `GATED_WAKES`. */
interface GateWithSql<Facts> extends Gate<Facts> {
  readonly openSql: Prisma.Sql;
}

/** A gate that is shut when at least one of these facts has this value. */
function shutWhenAny(values: Partial<RevocationFacts>): GateWithSql<RevocationFacts> {
  const facts = Object.entries(values) as [keyof RevocationFacts, boolean][];
  const open = facts.map(([fact, value]) =>
    value ? Prisma.sql`NOT (${FACT_CONDITIONS[fact]})` : Prisma.sql`${FACT_CONDITIONS[fact]}`,
  );
  return {
    isShut: (given) => facts.some(([fact, value]) => given[fact] === value),
    openSql: Prisma.join(open, ' AND '),
  };
}

// The order is the order of precedence: the first gate that is shut gives the reason.
const GATES_AT_CLAIM = {
  room_closed: shutWhenAny({ roomClosed: true }),
  not_a_member: shutWhenAny({ isMember: false, onRoster: false }),
  suspended: shutWhenAny({ companySuspended: true }),
  paused: shutWhenAny({ agentPaused: true, roomPaused: true }),
  key_rejected: shutWhenAny({ keyRejected: true }),
} satisfies Gates<GateWithSql<RevocationFacts>>;

const GATES_AT_DELIVERY = {
  ...GATES_AT_CLAIM,
  hop_limit: { isShut: ({ hop, hopLimit }) => hop > hopLimit, openSql: Prisma.sql`w.hop <= r.hop_limit` },
} satisfies Gates<GateWithSql<DeliveryFacts>>;

/** Delivery does not check the last two: it spends the allowance and reserves of the budgets, under their locks. */
const GATES_AT_CREATION = {
  ...GATES_AT_DELIVERY,
  allowance: { isShut: ({ allowance }) => allowance < 1 },
  budget: { isShut: ({ budgetUsedUp }) => budgetUsedUp },
} satisfies Readonly<Record<SuppressedReason, Gate<GateFacts>>>;

type Gates<G> = Readonly<Partial<Record<SuppressedReason, G>>>;

function findShutGate<Facts>(gates: Gates<Gate<Facts>>, facts: Facts): SuppressedReason | null {
  const shut = Object.entries(gates).find(([, gate]) => gate.isShut(facts));
  return (shut?.[0] ?? null) as SuppressedReason | null;
}

/** Why a wake may not be created as pending, or null. The first gate that is shut gives the reason. */
export function suppressionReason(facts: GateFacts): SuppressedReason | null {
  return findShutGate(GATES_AT_CREATION, facts);
}

/** Why a pending wake may not be delivered, or null. The caller spends the allowance and the budgets. */
export function deliveryReason(facts: DeliveryFacts): SuppressedReason | null {
  return findShutGate(GATES_AT_DELIVERY, facts);
}

/** Why a delivered wake may not be claimed, or null. The claim then closes its run as cancelled. */
export function revocationReason(facts: RevocationFacts): SuppressedReason | null {
  return findShutGate(GATES_AT_CLAIM, facts);
}

/** `deliveryReason` is null, as a condition on a row of `GATED_WAKES`. */
export const MAY_BE_DELIVERED = allOpen(GATES_AT_DELIVERY);

/** `revocationReason` is null, as a condition on a row of `GATED_WAKES`. */
export const MAY_BE_CLAIMED = allOpen(GATES_AT_CLAIM);

function allOpen(gates: Readonly<Record<string, { readonly openSql: Prisma.Sql }>>): Prisma.Sql {
  const conditions = Object.values(gates).map((gate) => gate.openSql);
  return Prisma.sql`(${Prisma.join(conditions, ' AND ')})`;
}

/** The wakes `w`, each joined with the rows that its gates read. */
export const GATED_WAKES = Prisma.sql`
  wakes w
  JOIN rooms r ON r.id = w.room_id
  JOIN agents a ON a.id = w.agent_id
  JOIN companies c ON c.id = w.company_id
  JOIN room_members m ON m.room_id = w.room_id AND m.company_id = w.company_id
  JOIN room_agents ra ON ra.room_id = w.room_id AND ra.agent_id = w.agent_id
  LEFT JOIN model_keys k ON k.id = a.model_key_id`;

/** The `RevocationFacts`, as columns of `GATED_WAKES`. */
export const REVOCATION_FACTS = Prisma.join(
  Object.entries(FACT_CONDITIONS).map(([fact, condition]) => Prisma.sql`(${condition}) AS ${Prisma.raw(`"${fact}"`)}`),
);

/** The reason that other companies may see. */
export function publicReason(reason: SuppressedReason): string {
  switch (reason) {
    case 'paused':
    case 'key_rejected':
    case 'budget':
      return 'unavailable';
    case 'allowance':
    case 'hop_limit':
    case 'not_a_member':
    case 'room_closed':
    case 'suspended':
      return reason;
  }
}
