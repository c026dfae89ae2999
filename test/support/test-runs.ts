// The size of tests with repetitions or random programs: small in `npm test`, full in `npm run test:rest`, which sets
// TEST_RUNS=full.

/** Whether this is the full run. */
export const FULL_RUN = process.env['TEST_RUNS'] === 'full';

/** The number of repetitions in this run of jest. */
export function repetitions(few: number, all: number): number {
  return FULL_RUN ? all : few;
}
