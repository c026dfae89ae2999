// Privacy, as non-interference: whatever Larkspur does and keeps to itself, what Tamarack can read in the room they share is
// the same as if Larkspur's secrets had been others.

import fc from 'fast-check';
import { startTestApi, type TestApi } from '../support/api';
import { playOut, readAll, type Happening } from '../support/two-worlds';

let api: TestApi;

beforeAll(async () => {
  api = await startTestApi();
});
afterAll(() => api.close());

const happening: fc.Arbitrary<Happening> = fc.oneof(
  fc.record({ what: fc.constant('say' as const), to: fc.constantFrom('scribe', 'scout', 'nobody') }),
  fc.record({ what: fc.constant('remember' as const), visibility: fc.constantFrom('shared', 'private') }),
  fc.record({ what: fc.constant('send_task' as const), to: fc.constantFrom('scribe', 'scout') }),
  fc.record({ what: fc.constant('run' as const), comes: fc.constantFrom('reply', 'refused', 'cancelled') }),
  fc.record({ what: fc.constantFrom('instruct', 'shut', 'reopen', 'add_keys', 'limit', 'rights') }),
);

const EVERYTHING: readonly Happening[] = [
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

async function readBoth(program: readonly Happening[]): Promise<[string[], string[]]> {
  const read = async (side: 0 | 1): Promise<string[]> => {
    worlds += 1;
    const suffix = `-w${worlds}`;
    return readAll(api, await playOut(api, suffix, side, program), suffix);
  };
  return [await read(0), await read(1)];
}

test('with everything that a company can do and keep to itself, the other reads the same', async () => {
  const [left, right] = await readBoth(EVERYTHING);
  expect(left.length).toBeGreaterThan(200);
  expect(left.filter((line) => /azure-\d|crimson-\d|sk-secret/.test(line))).toEqual([]);
  expect(right).toEqual(left);
  expect(api.logged()).not.toMatch(/azure-\d|crimson-\d|sk-secret/);
});

test('in whatever order it happens', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(happening, { minLength: 3, maxLength: 12 }), async (program) => {
      const [left, right] = await readBoth(program);
      expect(right).toEqual(left);
    }),
    { numRuns: 6, endOnFailure: true },
  );
}, 180_000);

test('what is not kept to itself would be seen: a shared line that differs tells the worlds apart', async () => {
  const [left, right] = await readBoth([]);
  expect(right).toEqual(left);
  worlds += 1;
  const suffix = `-w${worlds}`;
  const room = await playOut(api, suffix, 0, []);
  await room.larkspur.member.post(`${room.path}/events`, { type: 'memory', category: 'fact', content: 'plain' });
  expect(await readAll(api, room, suffix)).not.toEqual(left);
});
