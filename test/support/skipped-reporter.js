// Prints the name of every skipped test at the end of a run.

module.exports = class SkippedReporter {
  onRunComplete(_, { testResults }) {
    const skipped = testResults.flatMap((file) =>
      file.testResults
        .filter(({ status }) => status === 'pending' || status === 'todo')
        .map(({ fullName }) => fullName),
    );
    console.log(`\nSkipped tests: ${skipped.length}`);
    for (const name of skipped) console.log(`  ${name}`);
  }
};
