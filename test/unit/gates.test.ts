// The gates of a wake: which facts close which gate, which gate gives the reason, and what other companies see of a
// reason. test/integration/gates.test.ts compares the gates with their SQL.

import {
  deliveryReason,
  publicReason,
  revocationReason,
  suppressionReason,
  type GateFacts,
} from '../../prisma/store/eligibility/gates';
import { SUPPRESSED_REASONS, type SuppressedReason } from '../../workflows/contract';

const OPEN: GateFacts = {
  roomClosed: false,
  roomPaused: false,
  onRoster: true,
  isMember: true,
  companySuspended: false,
  agentPaused: false,
  keyRejected: false,
  allowance: 1,
  budgetUsedUp: false,
  hop: 8,
  hopLimit: 8,
};

/** Every fact that closes a gate, in the order of precedence. */
const GATES: readonly (readonly [Partial<GateFacts>, SuppressedReason])[] = [
  [{ roomClosed: true }, 'room_closed'],
  [{ isMember: false }, 'not_a_member'],
  [{ onRoster: false }, 'not_a_member'],
  [{ companySuspended: true }, 'suspended'],
  [{ agentPaused: true }, 'paused'],
  [{ roomPaused: true }, 'paused'],
  [{ keyRejected: true }, 'key_rejected'],
  [{ hop: 9 }, 'hop_limit'],
  [{ allowance: 0 }, 'allowance'],
  [{ budgetUsedUp: true }, 'budget'],
];

test('a wake passes at the hop limit with one run of the allowance left', () => {
  expect(suppressionReason(OPEN)).toBeNull();
  expect(deliveryReason(OPEN)).toBeNull();
  expect(revocationReason(OPEN)).toBeNull();
});

test.each(GATES)('%j closes the gate: %s', (facts, reason) => {
  expect(suppressionReason({ ...OPEN, ...facts })).toBe(reason);
});

test('if several gates are closed, the first one in order gives the reason', () => {
  for (let shut = 1; shut < 2 ** GATES.length; shut += 1) {
    const gates = GATES.filter((_, index) => (shut & (2 ** index)) !== 0);
    const facts = Object.assign({}, OPEN, ...gates.map(([change]) => change)) as GateFacts;
    const reason = suppressionReason(facts);
    if (reason !== gates[0]?.[1]) throw new Error(JSON.stringify({ facts, reason }));
  }
});

test('delivery leaves the allowance and budgets to its locks, and a claim also leaves out the hop limit', () => {
  for (const [facts, reason] of GATES) {
    const isSpent = reason === 'allowance' || reason === 'budget';
    expect(deliveryReason({ ...OPEN, ...facts })).toBe(isSpent ? null : reason);
    expect(revocationReason({ ...OPEN, ...facts })).toBe(isSpent || reason === 'hop_limit' ? null : reason);
  }
});

test('other companies see `unavailable` for the private reasons of a company', () => {
  expect(Object.fromEntries(SUPPRESSED_REASONS.map((reason) => [reason, publicReason(reason)]))).toEqual({
    paused: 'unavailable',
    key_rejected: 'unavailable',
    budget: 'unavailable',
    allowance: 'allowance',
    hop_limit: 'hop_limit',
    not_a_member: 'not_a_member',
    room_closed: 'room_closed',
    suspended: 'suspended',
  });
});
