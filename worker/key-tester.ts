// Carries out the tests of model keys that the door asked for. Any number of workers may at once: a test that another has is
// passed over, and one whose worker died is taken up when its lease is over.

import { testModelKey, type KeyTestDeps } from '../activities/key-test';
import type { SecretBoxError } from '../workflows/policy/secret-box';
import { endKeyTest, giveUpKeyTest, takeKeyTests, type TakenKeyTest } from '../prisma/store/model-keys/key-tests';
import type { Database } from '../prisma/store/db/database';
import { createLoop, type Loop } from './loop';

/** How often it looks without a hint: a test is asked for by hand, and its hint is seldom lost. */
const POLL_MS = 5_000;

/** Requests under way at once in one process. A slow provider holds up no other key while fewer are. */
const AT_ONCE = 8;

/** Longer than a request may take and its result to be recorded: nobody takes up what is still under way. */
const LEASE_SECONDS = 60;

export interface KeyTesterDeps extends KeyTestDeps {
  readonly db: Database;
  readonly leaseSeconds?: number;
  readonly pollMs?: number;
  readonly onUnopened: (keyId: string, error: SecretBoxError) => void;
  readonly onError: (error: unknown) => void;
}

/** A loop over tests that wait. Its `stop` ends requests under way and hands their tests on. */
export function createKeyTester(deps: KeyTesterDeps): Loop {
  const underWay = new Set<Promise<void>>();
  const stopping = new AbortController();

  const carryOut = async (test: TakenKeyTest): Promise<void> => {
    const onUnopened = (error: SecretBoxError): void => deps.onUnopened(test.keyId, error);
    const result = await testModelKey(deps, test, stopping.signal, onUnopened);
    await (result === null ? giveUpKeyTest(deps.db, test) : endKeyTest(deps.db, test, result));
  };

  const loop = createLoop({
    intervalMs: deps.pollMs ?? POLL_MS,
    onError: deps.onError,
    runOnce: async () => {
      const room = AT_ONCE - underWay.size;
      if (room === 0) return false;
      for (const test of await takeKeyTests(deps.db, room, deps.leaseSeconds ?? LEASE_SECONDS)) {
        const done = carryOut(test)
          .catch(deps.onError)
          .finally(() => {
            underWay.delete(done);
            // Only a full tester leaves tests waiting that it knew of.
            if (underWay.size === AT_ONCE - 1) loop.nudge();
          });
        underWay.add(done);
      }
      return false;
    },
  });

  return {
    start: () => loop.start(),
    nudge: () => loop.nudge(),
    async stop() {
      await loop.stop();
      stopping.abort();
      await Promise.all(underWay);
    },
    get lastSuccessAt() {
      return loop.lastSuccessAt;
    },
  };
}
