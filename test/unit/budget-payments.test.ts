// The wakes of one pass that fit into their budgets.

import fc from 'fast-check';
import { findOverBudget } from '../../prisma/store/eligibility/budgets';

const wake = (id: string, facts: Partial<Parameters<typeof findOverBudget>[0][number]> = {}) => ({
  id,
  agentId: 'agent_1',
  companyId: 'co_1',
  roomId: 'room_1',
  agentTokensPerDay: null,
  companyTokensPerDay: null,
  tokensPerRun: 10,
  ...facts,
});
const ROOM = new Map([['room_1', 100]]);
const over = (
  wakes: Parameters<typeof findOverBudget>[0],
  counted: Record<string, bigint> = {},
  allowances: ReadonlyMap<string, number> = ROOM,
): string[] => [...findOverBudget(wakes, allowances, { counted: new Map(Object.entries(counted)) })];

test.each<[string, string[], string[]]>([
  ['without a budget every wake fits', over([wake('a'), wake('b')], { agent_1: 10n ** 15n }), []],
  ['exactly the budget fits', over([wake('a', { agentTokensPerDay: 30n })], { agent_1: 20n }), []],
  ['one token more does not fit', over([wake('a', { agentTokensPerDay: 30n })], { agent_1: 21n }), ['a']],
  ['a budget of 0 stops all wakes', over([wake('a', { agentTokensPerDay: 0n })]), ['a']],
  ['a company’s budget counts too', over([wake('a', { agentTokensPerDay: 99n, companyTokensPerDay: 9n })]), ['a']],
  [
    'the oldest wake comes first, and a wake that fits may pass one that does not',
    over([
      wake('a', { agentTokensPerDay: 25n }),
      wake('b', { agentTokensPerDay: 25n, tokensPerRun: 20 }),
      wake('c', { agentTokensPerDay: 25n }),
      wake('d', { agentTokensPerDay: 25n }),
    ]),
    ['b', 'd'],
  ],
  [
    'a wake without an allowance takes nothing from the budget',
    over(
      [
        wake('a', { agentTokensPerDay: 10n, roomId: 'room_2' }),
        wake('b', { agentTokensPerDay: 10n }),
        wake('c', { agentTokensPerDay: 10n }),
      ],
      {},
      new Map([
        ['room_1', 5],
        ['room_2', 0],
      ]),
    ),
    ['c'],
  ],
])('%s', (_, found, expected) => {
  expect(found).toEqual(expected);
});

test('for any wakes, those within the budget fit together, and each of the others would exceed it', () => {
  const wakes = fc.array(
    fc.record({
      agent: fc.nat(2),
      tokensPerRun: fc.integer({ min: 1, max: 40 }),
      room: fc.nat(1),
    }),
    { maxLength: 30 },
  );
  const limit = fc.option(fc.bigInt(0n, 200n), { nil: null });
  fc.assert(
    fc.property(
      wakes,
      fc.tuple(limit, limit, limit),
      limit,
      fc.nat(150),
      fc.tuple(fc.nat(9), fc.nat(9)),
      (...given) => {
        const [asked, limits, companyLimit, used, allowances] = given;
        const all = asked.map(({ agent, tokensPerRun, room }, n) =>
          wake(`w${n}`, {
            agentId: `agent_${agent}`,
            roomId: `room_${room}`,
            agentTokensPerDay: limits[agent] ?? null,
            companyTokensPerDay: companyLimit,
            tokensPerRun,
          }),
        );
        const left = new Map(allowances.map((n, room) => [`room_${room}`, n]));
        const counted = { co_1: BigInt(used), agent_0: BigInt(used) };
        const found = new Set(over(all, counted, left));
        // The expectation, computed for one wake after the other.
        const sums = new Map<string, bigint>(Object.entries(counted));
        for (const each of all) {
          if ((left.get(each.roomId) ?? 0) < 1) {
            expect(found.has(each.id)).toBe(false);
            continue;
          }
          const after = [each.agentId, each.companyId].map(
            (owner) => (sums.get(owner) ?? 0n) + BigInt(each.tokensPerRun),
          );
          const fits = [each.agentTokensPerDay, each.companyTokensPerDay].every(
            (limitOf, index) => limitOf === null || (after[index] ?? 0n) <= limitOf,
          );
          expect(found.has(each.id)).toBe(!fits);
          if (!fits) continue;
          left.set(each.roomId, (left.get(each.roomId) ?? 0) - 1);
          const limited = each.agentTokensPerDay !== null || each.companyTokensPerDay !== null;
          if (limited) [each.agentId, each.companyId].forEach((owner, index) => sums.set(owner, after[index] ?? 0n));
        }
      },
    ),
  );
});
