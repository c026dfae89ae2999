// Opens the held actions of a run. Not a step: it changes nothing in the room.

import { openHeldActions as open } from '../prisma/store/runs/held-actions/open';
import type { HoldRecord } from '../workflows/policy/next-move';
import { currentExecution, type ActivityDeps } from './deps';

/** Opens every hold of the run at once and returns their states. May run any number of times; opens each once. */
export function createOpenHeldActions({ db, holdExpiryMs }: ActivityDeps) {
  return async ({ run }: { run: string }): Promise<readonly HoldRecord[]> =>
    open(db, currentExecution(), run, holdExpiryMs);
}
