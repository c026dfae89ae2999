// The gates that a wake passes twice: when it is created, and in the dispatcher's guarded update.

import type { SuppressedReason } from '../../workflows/contract';

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
