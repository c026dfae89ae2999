// The points of ways 4 and 5: seams around the room's own activities, which know nothing of them.

import { Context } from '@temporalio/activity';
import type { Activities, ActivityDeps } from '../../activities';
import type { Database } from '../../prisma/store/db/database';
import { InterceptedDatabase } from '../../test/support/intercepted-database';
import type { Point, Step } from './points';
import { currentWorkflowId, watchRequests, type Pass } from './traps';

/** Which step an activity carries out. A model call begins with the read; closing is no step of the job. */
const STEP_OF: Readonly<Record<string, Step>> = {
  claimMessage: 'claim',
  callModel: 'read',
  postReply: 'post',
  writeMemory: 'memory',
  sendTask: 'task',
};

/** Which step Temporal has the result of, once it has this activity's. */
const ACKNOWLEDGED: Readonly<Record<string, Step>> = { ...STEP_OF, callModel: 'model' };

export function watchDeps(deps: ActivityDeps, pass: Pass): ActivityDeps {
  const requestReply = watchRequests(deps.requestReply, pass);
  return {
    ...deps,
    db: watchTransactions(deps.db, pass),
    requestReply: async (...args) => {
      await pass('read:after', currentWorkflowId());
      return requestReply(...args);
    },
  };
}

/** The first transaction of each activity is the step; a later one (storing the answer, counting) opens no window. */
function watchTransactions(db: Database, pass: Pass): Database {
  const begun = new WeakSet<Context>();
  return new InterceptedDatabase(db, async (work, run) => {
    const context = Context.current();
    const step = begun.has(context) ? undefined : STEP_OF[context.info.activityType];
    begun.add(context);
    if (step === undefined) return run(work);
    const result = await run(async (tx) => {
      const worked = await work(tx);
      await pass(`${step}:inside`, currentWorkflowId());
      return worked;
    });
    await pass(`${step}:between`, currentWorkflowId());
    return result;
  });
}

export function watchActivities(activities: Activities, pass: Pass): Activities {
  const watched = Object.entries(activities).map(([name, work]) => [
    name,
    async (input: never) => {
      const step = STEP_OF[name];
      if (step !== undefined) await pass(`${step}:before`, currentWorkflowId());
      return work(input);
    },
  ]);
  return Object.fromEntries(watched) as Activities;
}

/** The point at which Temporal has this activity's result and was not told what comes next. Undefined: none. */
export function acknowledgedPoint(activity: string): Point | undefined {
  const step = ACKNOWLEDGED[activity];
  return step === undefined ? undefined : `${step}:after`;
}
