// The gates of a wake: which one shuts, which one speaks first, and how much of it other companies hear.

import { closedWhileWaiting, publicReason, shutGate, type GateFacts } from '../../prisma/store/eligibility/gates';
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

/** Every way to shut a gate, those that speak first first. */
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
  expect(shutGate(OPEN)).toBeNull();
  expect(closedWhileWaiting(OPEN)).toBeNull();
});

test.each(GATES)('%j shuts the gate: %s', (facts, reason) => {
  expect(shutGate({ ...OPEN, ...facts })).toBe(reason);
});

test('of all gates that are shut at once, the first one in order gives the reason', () => {
  for (let shut = 1; shut < 2 ** GATES.length; shut += 1) {
    const gates = GATES.filter((_, index) => (shut & (2 ** index)) !== 0);
    const facts = Object.assign({}, OPEN, ...gates.map(([change]) => change)) as GateFacts;
    if (shutGate(facts) !== gates[0]?.[1]) throw new Error(JSON.stringify({ facts, said: shutGate(facts) }));
  }
});

test('hops, the allowance and budgets, spent at delivery, do not shut between delivery and claim; every other gate does', () => {
  for (const [facts, reason] of GATES) {
    const isSpent = reason === 'hop_limit' || reason === 'allowance' || reason === 'budget';
    expect(closedWhileWaiting({ ...OPEN, ...facts })).toBe(isSpent ? null : reason);
  }
});

test('what a company keeps to itself reads `unavailable` elsewhere', () => {
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
