// The ending of a run that no acting step could close.

import { closeRun as close, findEnding as find } from '../prisma/store/runs/fence';
import type { Ending } from '../workflows/contract';
import type { CloseReason } from '../workflows/policy/ending';
import { currentExecution, type ActivityDeps } from './deps';

/** Closes the run and returns its ending; a closed run's ending is returned as it is. May run any number of times. */
export function createCloseRun({ db }: ActivityDeps) {
  return async ({ run, reason }: { run: string; reason: CloseReason }): Promise<Ending> => {
    const cancelled = reason.kind === 'cancelled' ? { by: 'temporal', why: 'the workflow was cancelled' } : null;
    return close(db, currentExecution(), run, reason, cancelled);
  };
}

/** The ending that the run has, or null while it is open. Fails as fenced when it belongs to another execution. */
export function createFindEnding({ db }: ActivityDeps) {
  return async ({ run }: { run: string }): Promise<Ending | null> => find(db, currentExecution(), run);
}
