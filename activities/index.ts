// The activities of a run.

import { createCallModel } from './call-model';
import { createClaimMessage } from './claim';
import { createCloseRun, createFindEnding } from './close';
import type { ActivityDeps } from './deps';
import { translateFailures } from './failure';
import { createOpenHeldActions } from './hold';
import { createStepActivities } from './step';

export type { ActivityDeps } from './deps';
export type Activities = ReturnType<typeof createActivities>;

/** Every activity that `agentRun` calls. Each translates its failures, so that no content reaches a history. */
export function createActivities(deps: ActivityDeps) {
  const activities = {
    claimMessage: createClaimMessage(deps),
    callModel: createCallModel(deps),
    openHeldActions: createOpenHeldActions(deps),
    ...createStepActivities(deps),
    closeRun: createCloseRun(deps),
    findEnding: createFindEnding(deps),
  };
  const translated = Object.entries(activities).map(([name, activity]) => [
    name,
    translateFailures(name, activity as (input: never) => Promise<unknown>, deps.logFailure),
  ]);
  return Object.fromEntries(translated) as typeof activities;
}
