import { randomBytes } from 'node:crypto';
import { readApiConfig } from '../../api/config';

const NEEDED = {
  DATABASE_URL: 'postgresql://user@localhost/db',
  MASTER_KEYS: `k1:${randomBytes(32).toString('base64')}`,
};

test('every variable except the database and the master keys has a default', () => {
  const config = readApiConfig(NEEDED);
  expect(config).toMatchObject({
    host: '127.0.0.1',
    port: 8080,
    poolSize: 10,
    requestsPerMinute: 600,
    streamsPerKey: 10,
    operatorKey: undefined,
    allowedModelHosts: [],
    logLevel: 'info',
  });
  expect([...config.providers]).toEqual([
    ['anthropic', 'https://api.anthropic.com/v1'],
    ['openai', 'https://api.openai.com/v1'],
  ]);
  expect(config.lockTimeoutMs).toBeLessThan(config.statementTimeoutMs);
  expect(config.statementTimeoutMs).toBeLessThan(config.transactionTimeoutMs);
});

test('set variables are read, and an empty variable counts as not set', () => {
  const config = readApiConfig({
    ...NEEDED,
    API_PORT: '0',
    API_HOST: '::1',
    OPERATOR_KEY: '',
    MODEL_PROVIDERS: 'openai=https://api.openai.com, house = http://10.0.0.5:8000/v1/ ,',
    MODEL_ALLOWED_HOSTS: 'localhost:11434, [::1]:8000',
    DATABASE_POOL_SIZE: '3',
    LOG_LEVEL: 'debug',
  });
  expect(config).toMatchObject({ port: 0, host: '::1', operatorKey: undefined, poolSize: 3, logLevel: 'debug' });
  expect([...config.providers]).toEqual([
    ['openai', 'https://api.openai.com/v1'],
    ['house', 'http://10.0.0.5:8000/v1'],
  ]);
  expect(config.allowedModelHosts).toEqual(['localhost:11434', '[::1]:8000']);
});

test.each([
  ['DATABASE_URL', undefined],
  ['MASTER_KEYS', undefined],
  ['MASTER_KEYS', 'canary'],
  ['MASTER_KEYS', 'k1:Y2FuYXJ5'],
  ['API_PORT', '65536'],
  ['API_PORT', 'canary'],
  ['API_PORT', '-1'],
  ['API_PORT', '80.5'],
  ['DATABASE_POOL_SIZE', '0'],
  ['RATE_LIMIT_PER_MINUTE', '0'],
  ['STREAMS_PER_KEY', 'canary'],
  ['DATABASE_LOCK_TIMEOUT_MS', '1s'],
  ['OPERATOR_KEY', 'canary'],
  ['OPERATOR_KEY', `canary ${'x'.repeat(40)}`],
  ['MODEL_PROVIDERS', 'canary'],
  ['MODEL_PROVIDERS', 'a=https://x.example.com,a=https://canary.example.com'],
  ['MODEL_PROVIDERS', 'a=https://user:canary@x.example.com'],
  ['MODEL_PROVIDERS', '=https://canary.example.com'],
  ['MODEL_ALLOWED_HOSTS', 'canary'],
  ['MODEL_ALLOWED_HOSTS', 'http://canary:80'],
  ['LOG_LEVEL', 'canary'],
])('the error for a wrong %s names the variable and the expected value, but not %j', (name, value) => {
  const read = () => readApiConfig({ ...NEEDED, [name]: value });
  expect(read).toThrow(new RegExp(`^The API's configuration is not usable:\n  ${name}: expected \\S`));
  expect(read).not.toThrow(/canary|Y2Fu/);
});

test('one error names all wrong variables', () => {
  expect(() => readApiConfig({ API_PORT: 'x' })).toThrow(/DATABASE_URL[\s\S]*API_PORT[\s\S]*MASTER_KEYS/);
});
