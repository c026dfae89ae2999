// The whole run shares one PostgreSQL and one Temporal dev server, which globalSetup starts. A test's tier is its folder
// (CONTRIBUTING.md); the scripts of package.json choose the folders.
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
  testEnvironment: 'node',
  roots: ['<rootDir>/test'],
  testMatch: ['**/*.test.ts'],
  transform: {
    '^.+\\.ts$': swc,
    '^.+\\.tsx$': swcJsx,
    // An ES module, which Node imports and jest cannot: its modules are CommonJS.
    '/schema-engine-wasm/.+\\.js$': swc,
  },
  transformIgnorePatterns: ['/node_modules/(?!@prisma/schema-engine-wasm/)'],
  reporters: ['default', '<rootDir>/test/support/skipped-reporter.js'],
  setupFilesAfterEnv: ['<rootDir>/test/support/tests-end.ts'],
  globalSetup: '<rootDir>/test/support/global-setup.ts',
  globalTeardown: '<rootDir>/test/support/global-teardown.ts',
  // For a test that hangs. The full runs hold tests that start, kill and restart servers and workers.
  testTimeout: process.env['TEST_RUNS'] === 'full' ? 240_000 : 60_000,
  // One for each of two cores. `npm test` has a third, at work while the others wait.
  maxWorkers: 2,
};
