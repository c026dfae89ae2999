// Runs the tests of model keys that API clients requested. Several workers may do so at once: a test that another worker
// holds is skipped, and the test of a dead worker is taken again when its lease ends.

import { testModelKey, type KeyTestDeps } from '../activities/key-test';
import type { SecretBoxError } from '../workflows/policy/secret-box';
import { endKeyTest, giveUpKeyTest, takeKeyTests, type TakenKeyTest } from '../prisma/store/model-keys/key-tests';
import type { Database } from '../prisma/store/db/database';
import { createLoop, type Loop, type OnPass } from './loop';

/** The interval without a notification: tests are requested by hand, and notifications are rarely lost. */
const POLL_MS = 5_000;

/** Most requests in flight in one process, so that a slow provider does not delay the tests of other keys. */
const AT_ONCE = 8;

/** Longer than a request and the recording of its result may take, so that no test in progress is taken again. */
const LEASE_SECONDS = 60;

export interface KeyTesterDeps extends KeyTestDeps {
  readonly db: Database;
  readonly leaseSeconds?: number;
  readonly pollMs?: number;
  readonly onUnopened: (keyId: string, error: SecretBoxError) => void;
  readonly onError: (error: unknown) => void;
  readonly onPass?: OnPass | undefined;
}

/** The loop over waiting tests. Its `stop` ends the requests in flight and releases their tests to other workers. */
export function createKeyTester(deps: KeyTesterDeps): Loop {
  const inFlight = new Set<Promise<void>>();
  const stopping = new AbortController();

  const runTest = async (test: TakenKeyTest): Promise<void> => {
    const onUnopened = (error: SecretBoxError): void => deps.onUnopened(test.keyId, error);
    const result = await testModelKey(deps, test, stopping.signal, onUnopened);
    await (result === null ? giveUpKeyTest(deps.db, test) : endKeyTest(deps.db, test, result));
  };

  const loop = createLoop({
    intervalMs: deps.pollMs ?? POLL_MS,
    onError: deps.onError,
    onPass: deps.onPass,
    runOnce: async () => {
      const free = AT_ONCE - inFlight.size;
      if (free === 0) return false;
      for (const test of await takeKeyTests(deps.db, free, deps.leaseSeconds ?? LEASE_SECONDS)) {
        const done = runTest(test)
          .catch(deps.onError)
          .finally(() => {
            inFlight.delete(done);
            // Only a full tester leaves known tests waiting.
            if (inFlight.size === AT_ONCE - 1) loop.trigger();
          });
        inFlight.add(done);
      }
      return false;
    },
  });

  return {
    start: () => loop.start(),
    trigger: () => loop.trigger(),
    async stop() {
      await loop.stop();
      stopping.abort();
      await Promise.all(inFlight);
    },
    get lastSuccessAt() {
      return loop.lastSuccessAt;
    },
  };
}
