// Privacy as non-interference: the private data of Larkspur never changes what Tamarack can read in their shared room. Each
// program runs twice with different secrets, and Tamarack must read the same.

import fc from 'fast-check';
import { expectStatus, startTestApi, type Json, type TestApi, type TestRoom } from '../../support/api';
import { runActions, readAll, type RoomAction } from '../../support/privacy-worlds';
import { repetitions } from '../../support/test-runs';

let api: TestApi;

beforeAll(async () => {
  api = await startTestApi();
});
afterAll(() => api.close());

const happening: fc.Arbitrary<RoomAction> = fc.oneof(
  fc.record({ what: fc.constant('say' as const), to: fc.constantFrom('scribe', 'scout', 'none') }),
  fc.record({ what: fc.constant('remember' as const), visibility: fc.constantFrom('shared', 'private') }),
  fc.record({ what: fc.constant('send_task' as const), to: fc.constantFrom('scribe', 'scout') }),
  fc.record({ what: fc.constant('run' as const), comes: fc.constantFrom('reply', 'refused', 'cancelled') }),
  fc.record({ what: fc.constantFrom('instruct', 'shut', 'reopen', 'add_keys', 'limit', 'rights') }),
);

const EVERYTHING: readonly RoomAction[] = [
  { what: 'remember', visibility: 'private' },
  { what: 'remember', visibility: 'shared' },
  { what: 'instruct' },
  { what: 'rights' },
  { what: 'add_keys' },
  { what: 'limit' },
  { what: 'shut' },
  { what: 'say', to: 'scribe' },
  { what: 'send_task', to: 'scribe' },
  { what: 'reopen' },
  { what: 'say', to: 'scout' },
  { what: 'run', comes: 'reply' },
  { what: 'run', comes: 'refused' },
  { what: 'run', comes: 'cancelled' },
];

let worlds = 0;

/** The wait of a run for its claim is private. On one side it is more than a day, and no time range may reveal it. */
async function claimLater({ larkspur }: TestRoom, side: 0 | 1): Promise<void> {
  const waited = `${side * 30} hours`;
  await api.db.$executeRaw`
    UPDATE runs SET claimed_at = claimed_at + ${waited}::interval WHERE company_id = ${larkspur.id}`;
}

/** The runs and usage that Tamarack can read for the hours up to now, and for the later hours. */
async function readAroundNow({ path, id, tamarack }: TestRoom): Promise<string[]> {
  const inHours = (hours: number): string => new Date(Date.now() + hours * 3_600_000).toISOString();
  const lines: string[] = [];
  for (const [since, until] of [
    [inHours(-1), inHours(1)],
    [inHours(1), inHours(100)],
  ] as const) {
    const within = `since=${since}&until=${until}`;
    const { data } = await expectStatus(200, tamarack.member.get(`/v1/runs?room=${id}&limit=200&${within}`));
    const { runs } = await expectStatus(200, tamarack.member.get(`${path}/usage?${within}`));
    lines.push(JSON.stringify([data.map(({ state, ending }: Json) => [state, ending]), runs]));
  }
  return lines;
}

async function readBoth(program: readonly RoomAction[]): Promise<[string[], string[]]> {
  const read = async (side: 0 | 1): Promise<string[]> => {
    worlds += 1;
    const suffix = `-w${worlds}`;
    const room = await runActions(api, suffix, side, program);
    await claimLater(room, side);
    return [...(await readAll(api, room, suffix)), ...(await readAroundNow(room))];
  };
  return [await read(0), await read(1)];
}

test('the other company reads the same after every private change that a company can make', async () => {
  const [left, right] = await readBoth(EVERYTHING);
  expect(left.length).toBeGreaterThan(200);
  expect(left.filter((line) => /azure-\d|crimson-\d|sk-secret/.test(line))).toEqual([]);
  expect(right).toEqual(left);
  expect(api.logged()).not.toMatch(/azure-\d|crimson-\d|sk-secret/);
});

test('the other company reads the same after private changes in any order', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(happening, { minLength: 3, maxLength: 12 }), async (program) => {
      const [left, right] = await readBoth(program);
      expect(right).toEqual(left);
    }),
    { numRuns: repetitions(1, 6), endOnFailure: true },
  );
});

test('the hours up to now contain runs, and the later hours contain none', async () => {
  const [, right] = await readBoth([{ what: 'run', comes: 'refused' }]);
  expect(right.slice(-2).map((line) => JSON.parse(line))).toEqual([
    [[['closed', 'refused']], { total: 1, open: 0, endings: { refused: 1 } }],
    [[], { total: 0, open: 0, endings: {} }],
  ]);
});

test('the check finds a difference in shared data', async () => {
  const [left, right] = await readBoth([]);
  expect(right).toEqual(left);
  worlds += 1;
  const suffix = `-w${worlds}`;
  const room = await runActions(api, suffix, 0, []);
  await room.larkspur.member.post(`${room.path}/events`, { type: 'memory', category: 'fact', content: 'plain' });
  expect([...(await readAll(api, room, suffix)), ...(await readAroundNow(room))]).not.toEqual(left);
});
