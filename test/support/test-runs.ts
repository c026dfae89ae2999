// The size of tests that repeat something, or try random programs: small in `npm test`, whole in `npm run test:rest`, which
// sets TEST_RUNS=full.

/** Whether this is the whole run. */
export const FULL_RUN = process.env['TEST_RUNS'] === 'full';

/** The number of repetitions of this run of jest. */
export function repetitions(few: number, all: number): number {
  return FULL_RUN ? all : few;
}
