// Closing a run that no step closed, and reading its ending.

import { closeRun as close, findEnding as find } from '../prisma/store/runs/fence';
import type { Ending } from '../workflows/contract';
import type { CloseReason } from '../workflows/policy/ending';
import { currentExecution, type ActivityDeps } from './deps';

/** Closes the run and returns its ending, or returns the ending of a closed run. May run any number of times. */
export function createCloseRun({ db }: ActivityDeps) {
  return async ({ run, reason }: { run: string; reason: CloseReason }): Promise<Ending> => {
    const cancelled = reason.kind === 'cancelled' ? { by: 'temporal', why: 'the workflow was cancelled' } : null;
    return close(db, currentExecution(), run, reason, cancelled);
  };
}

/** The ending of the run, or null while it is open. Fails as fenced if another execution owns the run. */
export function createFindEnding({ db }: ActivityDeps) {
  return async ({ run }: { run: string }): Promise<Ending | null> => find(db, currentExecution(), run);
}
