// One project: the whole suite shares one PostgreSQL and one Temporal dev server, started in globalSetup.
const swc = ['@swc/jest', { jsc: { target: 'es2022', parser: { syntax: 'typescript' } } }];
// The console's pages.
const swcJsx = [
  '@swc/jest',
  {
    jsc: {
      target: 'es2022',
      parser: { syntax: 'typescript', tsx: true },
      transform: { react: { runtime: 'automatic', importSource: 'hono/jsx' } },
    },
  },
];

/** @type {import('jest').Config} */
module.exports = {
  testEnvironment: '<rootDir>/test/support/environment.js',
  runtime: '<rootDir>/test/support/runtime.js',
  roots: ['<rootDir>/test'],
  testMatch: ['**/*.test.ts'],
  transform: { '^.+\\.ts$': swc, '^.+\\.tsx$': swcJsx },
  globalSetup: '<rootDir>/test/support/global-setup.ts',
  globalTeardown: '<rootDir>/test/support/global-teardown.ts',
  testSequencer: '<rootDir>/test/support/slow-first.js',
  // For a test that hangs. What its parts wait for is said in test/support/run-waits.ts, and by the product's own limits.
  testTimeout: 500_000,
  // One for each of two cores. `npm test` has a third, at work while the others wait.
  maxWorkers: 2,
};
