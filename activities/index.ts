// The activities of a run, built from what they work with.

import { createCallModel } from './call-model';
import { createClaimMessage } from './claim';
import { createCloseRun, createFindEnding } from './close';
import type { ActivityDeps } from './deps';
import { translateFailures } from './failure';
import { createOpenHeldActions } from './hold';
import { createPostReply } from './post-reply';
import { createSendTask, createUpdateTask } from './tasks';
import { createWriteMemory } from './write-memory';

export type { ActivityDeps } from './deps';
export type Activities = ReturnType<typeof createActivities>;

/** Every activity that `agentRun` can call. Each translates its failures, so that no content reaches a history. */
export function createActivities(deps: ActivityDeps) {
  const log = deps.logFailure;
  return {
    claimMessage: translateFailures('claimMessage', createClaimMessage(deps), log),
    callModel: translateFailures('callModel', createCallModel(deps), log),
    openHeldActions: translateFailures('openHeldActions', createOpenHeldActions(deps), log),
    postReply: translateFailures('postReply', createPostReply(deps), log),
    writeMemory: translateFailures('writeMemory', createWriteMemory(deps), log),
    updateTask: translateFailures('updateTask', createUpdateTask(deps), log),
    sendTask: translateFailures('sendTask', createSendTask(deps), log),
    closeRun: translateFailures('closeRun', createCloseRun(deps), log),
    findEnding: translateFailures('findEnding', createFindEnding(deps), log),
  };
}
