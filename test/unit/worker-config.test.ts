import { randomBytes } from 'node:crypto';
import { heartbeatEveryMs } from '../../activities/call-model';
import { readWorkerConfig } from '../../worker/config';

const NEEDED = {
  DATABASE_URL: 'postgresql://user@localhost/db',
  MASTER_KEYS: `k1:${randomBytes(32).toString('base64')}`,
};

test('every variable except the database and the master keys has a default', () => {
  expect(readWorkerConfig({ ...NEEDED, RUN_TIME_LIMIT_SECONDS: '' })).toMatchObject({
    timeouts: { limitMs: 300_000, stepMs: 10_000, modelMs: 95_000, heartbeatMs: 10_000 },
    holdExpiryMs: 72 * 3_600_000,
    companyLimit: 20,
    allowedModelHosts: [],
  });
});

test('the cache has space for all runs that can be active, and for half as many more', () => {
  const cached = (env: Record<string, string>) => readWorkerConfig({ ...NEEDED, ...env }).maxCachedRuns;
  expect(cached({})).toBe(150);
  expect(cached({ WORKER_MAX_ACTIVITIES: '1' })).toBe(10);
  expect(cached({ WORKER_MAX_ACTIVITIES: '1000' })).toBe(1_500);
  expect(cached({ WORKER_MAX_ACTIVITIES: '1000', WORKER_MAX_CACHED_RUNS: '20' })).toBe(20);
});

test('a time limit of up to an hour and an expiry of up to 90 days are accepted', () => {
  const config = readWorkerConfig({ ...NEEDED, RUN_TIME_LIMIT_SECONDS: '3600', HOLD_EXPIRY_HOURS: '2160' });
  expect([config.timeouts.limitMs, config.holdExpiryMs]).toEqual([3_600_000, 90 * 24 * 3_600_000]);
  for (const [name, value] of [
    ['RUN_TIME_LIMIT_SECONDS', '3601'],
    ['RUN_TIME_LIMIT_SECONDS', '0'],
    ['HOLD_EXPIRY_HOURS', '2161'],
    ['HOLD_EXPIRY_HOURS', '0'],
  ] as const) {
    expect(() => readWorkerConfig({ ...NEEDED, [name]: value })).toThrow(name);
  }
});

test('a model has time to answer, beyond the time to record the answer', () => {
  const least = readWorkerConfig({ ...NEEDED, RUN_TIME_LIMIT_SECONDS: '10', RUN_MODEL_TIMEOUT_SECONDS: '3' });
  expect(least.timeouts).toMatchObject({ limitMs: 10_000, modelMs: 3_000 });
  for (const [name, value, message] of [
    ['RUN_TIME_LIMIT_SECONDS', '9.9', 'RUN_TIME_LIMIT_SECONDS: at least 10 seconds: 2 of them are kept'],
    ['RUN_TIME_LIMIT_SECONDS', '2', 'RUN_TIME_LIMIT_SECONDS: at least 10 seconds: 2 of them are kept'],
    ['RUN_MODEL_TIMEOUT_SECONDS', '2', 'RUN_MODEL_TIMEOUT_SECONDS: at least 3 seconds: 2 of them are kept'],
  ] as const) {
    expect(() => readWorkerConfig({ ...NEEDED, [name]: value })).toThrow(message);
  }
});

test.each(['0.5', '1', '10', '60'])(
  'a model call sends three heartbeats in its heartbeat timeout of %s s',
  (silent) => {
    const { heartbeatMs } = readWorkerConfig({ ...NEEDED, RUN_HEARTBEAT_SECONDS: silent }).timeouts;
    expect(heartbeatEveryMs(heartbeatMs) * 3).toBeCloseTo(heartbeatMs, 3);
  },
);

test('one error names every missing or wrong variable, and no value', () => {
  const read = () => readWorkerConfig({ MASTER_KEYS: 'k1:canary', RUN_STEP_TIMEOUT_SECONDS: 'canary' });
  expect(read).toThrow(/DATABASE_URL.*RUN_STEP_TIMEOUT_SECONDS/s);
  expect(read).not.toThrow(/canary/);
});
