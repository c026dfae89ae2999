import { randomBytes } from 'node:crypto';
import { readWorkerConfig } from '../../worker/config';

const NEEDED = {
  DATABASE_URL: 'postgresql://user@localhost/db',
  MASTER_KEYS: `k1:${randomBytes(32).toString('base64')}`,
};

test('has a default for all but the database and the master keys', () => {
  expect(readWorkerConfig({ ...NEEDED, RUN_TIME_LIMIT_SECONDS: '' })).toMatchObject({
    timeouts: { limitMs: 300_000, stepMs: 10_000, modelMs: 95_000, heartbeatMs: 10_000 },
    holdExpiryMs: 72 * 3_600_000,
    companyLimit: 20,
    allowedModelHosts: [],
  });
});

test('takes a time limit of up to an hour, and an expiry of up to 90 days', () => {
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

test('names every variable that is missing or wrong, and no value', () => {
  const read = () => readWorkerConfig({ MASTER_KEYS: 'k1:canary', RUN_STEP_TIMEOUT_SECONDS: 'canary' });
  expect(read).toThrow(/DATABASE_URL.*RUN_STEP_TIMEOUT_SECONDS/s);
  expect(read).not.toThrow(/canary/);
});
