// The order of the test files. jest runs first what took longest the last time, but a fresh clone knows no times and goes by
// size, which would leave small files that take half a minute to the end, with the other worker idle.

const Sequencer = require('@jest/test-sequencer').default;

/** Those that took longer than 20 s on two cores, the longest first. A name that is gone does no harm. */
const SLOW = [
  'workflow/held-actions',
  'e2e/canary',
  'integration/interleavings',
  'e2e/console-browser',
  'integration/api-main',
  'e2e/schemathesis',
  'integration/privacy',
  'workflow/many-at-once',
  'e2e/mcp-rights',
  'e2e/demo',
  'workflow/no-content',
  'workflow/cases-temporal',
  'integration/crash-lab',
  'e2e/mcp-tools',
  'integration/cases-postgres',
  'workflow/model-protocols',
  'integration/migrations',
  'workflow/timeline',
  'integration/budgets',
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
