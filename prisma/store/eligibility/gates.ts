// The gates that a wake passes twice: when it is created, and in the dispatcher's guarded update.

import type { SuppressedReason } from '../../../workflows/contract';
import { Prisma } from '../../generated/client';

/** What a wake's agent and room look like at this moment. */
export interface GateFacts {
  readonly roomClosed: boolean;
  readonly roomPaused: boolean;
  readonly onRoster: boolean;
  readonly isMember: boolean;
  readonly companySuspended: boolean;
  readonly agentPaused: boolean;
  /** The agent has no usable model key: none, revoked, or refused by the provider in its newest version. */
  readonly keyRejected: boolean;
  readonly allowance: number;
  /** What is used up today leaves no room for another run; a dispatcher, who also counts what is reserved, judges by itself. */
  readonly budgetUsedUp: boolean;
  readonly hop: number;
  readonly hopLimit: number;
}

/** Why this wake may not run now, or null. The first gate that is shut gives the reason. */
export function shutGate(facts: GateFacts): SuppressedReason | null {
  return (
    closedWhileWaiting(facts) ??
    (facts.hop > facts.hopLimit ? 'hop_limit' : null) ??
    (facts.allowance < 1 ? 'allowance' : null) ??
    (facts.budgetUsedUp ? 'budget' : null)
  );
}

/** The gates that may still shut between delivery and claim; the claim then closes the run as cancelled. */
export function closedWhileWaiting(
  facts: Omit<GateFacts, 'allowance' | 'budgetUsedUp' | 'hop' | 'hopLimit'>,
): SuppressedReason | null {
  if (facts.roomClosed) return 'room_closed';
  if (!facts.isMember || !facts.onRoster) return 'not_a_member';
  if (facts.companySuspended) return 'suspended';
  if (facts.agentPaused || facts.roomPaused) return 'paused';
  if (facts.keyRejected) return 'key_rejected';
  return null;
}

/** Wakes `w`, each with what its gates look at. */
export const GATED_WAKES = Prisma.sql`
  wakes w
  JOIN rooms r ON r.id = w.room_id
  JOIN agents a ON a.id = w.agent_id
  JOIN companies c ON c.id = w.company_id
  JOIN room_members m ON m.room_id = w.room_id AND m.company_id = w.company_id
  JOIN room_agents ra ON ra.room_id = w.room_id AND ra.agent_id = w.agent_id
  LEFT JOIN model_keys k ON k.id = a.model_key_id`;

/** Of a key `k` that may be missing. */
export const KEY_REJECTED = Prisma.sql`
  (k.id IS NULL OR k.revoked_at IS NOT NULL OR k.rejected_version IS NOT DISTINCT FROM k.version)`;

/** The facts of `closedWhileWaiting`, as columns of `GATED_WAKES`. */
export const GATE_FACTS = Prisma.sql`
  r.closed_at IS NOT NULL AS "roomClosed", r.paused_at IS NOT NULL AS "roomPaused", m.left_at IS NULL AS "isMember",
  ra.removed_at IS NULL AS "onRoster", a.paused_at IS NOT NULL AS "agentPaused",
  c.suspended_at IS NOT NULL AS "companySuspended", ${KEY_REJECTED} AS "keyRejected"`;

/** Whether `closedWhileWaiting` has nothing to say, where that is to be known without a trip. */
export const NO_GATE_SHUT = Prisma.sql`
  (r.closed_at IS NULL AND r.paused_at IS NULL AND m.left_at IS NULL AND ra.removed_at IS NULL AND a.paused_at IS NULL
   AND c.suspended_at IS NULL AND NOT ${KEY_REJECTED})`;

/** A reason as other companies may see it. */
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
