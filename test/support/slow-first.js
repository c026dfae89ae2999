// The order of the test files. jest runs first what took longest the last time, but a fresh clone knows no times and goes by
// size, which would leave small files that take half a minute to the end, with the other worker idle.

const Sequencer = require('@jest/test-sequencer').default;

/** Those that took longer than 20 s on two cores, the longest first. A name that is gone does no harm. */
const SLOW = [
  'e2e/schemathesis',
  'e2e/canary',
  'workflow/held-actions',
  'integration/privacy',
  'e2e/console-browser',
  'integration/interleavings',
  'integration/api-main',
  'workflow/no-content',
  'e2e/demo',
  'e2e/mcp-tools',
  'workflow/cases-temporal',
  'workflow/many-at-once',
  'e2e/mcp-rights',
  'workflow/timeline',
  'integration/crash-lab',
  'integration/cases-postgres',
  'workflow/many-parked',
  'integration/migrations',
  'workflow/model-protocols',
  'integration/budgets',
  'workflow/data-converter',
  'integration/held-actions-in-the-feed',
  'integration/console-rooms',
  'integration/api-usage',
  'workflow/always-an-ending',
  'integration/leaving',
];

module.exports = class SlowFirst extends Sequencer {
  sort(tests) {
    const sorted = super.sort(tests);
    const rank = ({ path }) => {
      const index = SLOW.findIndex((name) => path.endsWith(`/${name}.test.ts`));
      return index === -1 ? SLOW.length : index;
    };
    if (sorted.every((test) => rank(test) === SLOW.length || test.duration !== undefined)) return sorted;
    return sorted.sort((a, b) => rank(a) - rank(b));
  }
};
